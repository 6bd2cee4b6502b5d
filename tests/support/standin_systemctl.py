"""A stand-in for systemctl with the one contract that oeactl relies on: argv, output, exit codes, restarts.

STANDIN_UNITS: a folder with ``NAME.service`` files (ExecStart, Environment, WorkingDirectory, Restart)
and, under ``run``, their drop-ins. Any other argv than those below is an error, as with a real one.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(os.environ["STANDIN_UNITS"])
SHOWN = "--property=LoadState,ActiveState,SubState,MainPID,NRestarts"


def main() -> int:
    match sys.argv[1:]:
        case ["daemon-reload"]:
            (ROOT / "loaded.json").write_text(json.dumps({unit.name: settings(unit) for unit in units()}))
            return 0
        case ["start", name]:
            return start(name)
        case ["stop", name]:
            return stop(name)
        case ["is-active", "--quiet", name]:
            return 0 if state(name)["ActiveState"] == "active" else 3
        case ["show", shown, name] if shown == SHOWN:
            print("\n".join(f"{key}={value}" for key, value in state(name).items()))
            return 0
    print(f"Unknown command verb or option: {sys.argv[1:]}", file=sys.stderr)
    return 1


def units() -> list[Path]:
    return sorted(ROOT.glob("*.service"))


def settings(unit: Path) -> dict[str, list[str]]:
    """Its settings with the drop-ins' after them; an empty assignment clears what came before."""
    found: dict[str, list[str]] = {}
    for file in (unit, *sorted((ROOT / "run" / f"{unit.name}.d").glob("*.conf"))):
        for line in file.read_text().splitlines():
            name, equals, value = line.partition("=")
            if not equals or line.startswith(("#", "[")):
                continue
            found[name] = [*found.get(name, []), value] if value else []
    return found


def loaded(name: str) -> dict[str, list[str]] | None:
    path = ROOT / "loaded.json"
    if not path.exists():
        path.write_text(json.dumps({unit.name: settings(unit) for unit in units()}))
    found: dict[str, list[str]] | None = json.loads(path.read_text()).get(name)
    return found


def state(name: str) -> dict[str, str]:
    path = ROOT / f"{name}.state"
    if loaded(name) is None:
        none = {"ActiveState": "inactive", "SubState": "dead", "MainPID": "0", "NRestarts": "0"}
        return {"LoadState": "not-found", **none}
    kept = json.loads(path.read_text()) if path.exists() else {}
    return {
        "LoadState": "loaded",
        "ActiveState": kept.get("active", "inactive"),
        "SubState": kept.get("sub", "dead"),
        "MainPID": str(kept.get("pid", 0)),
        "NRestarts": str(kept.get("restarts", 0)),
    }


def unquoted(text: str) -> list[str]:
    return [word.replace("%%", "%") for word in shlex.split(text)]


def start(name: str) -> int:
    found = loaded(name)
    if found is None:
        print(f"Failed to start {name}: Unit {name} not found.", file=sys.stderr)
        return 5
    if state(name)["ActiveState"] == "active":
        return 0
    if os.fork() == 0:
        os.setsid()
        supervise(name, found)
        os._exit(0)
    limit = time.monotonic() + 10
    while not (ROOT / f"{name}.state").exists() and time.monotonic() < limit:
        time.sleep(0.02)
    return 0


def supervise(name: str, found: dict[str, list[str]]) -> None:
    env = {"PATH": os.environ["PATH"]}
    for text in found.get("Environment", []):
        env.update(word.split("=", 1) for word in unquoted(text))
    argv = [word.replace("$$", "$") for word in unquoted(found["ExecStart"][-1])]
    output = found.get("StandardOutput", ["append:/dev/null"])[-1].removeprefix("append:")
    cwd = found.get("WorkingDirectory", ["/"])[-1]
    restarts = 0
    while True:
        with Path(output).open("ab") as log:
            child = subprocess.Popen(argv, env=env, cwd=cwd, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        keep(name, active="active", sub="running", pid=child.pid, restarts=restarts, supervisor=os.getpid())
        code = child.wait()
        if (ROOT / f"{name}.stopping").exists() or found.get("Restart", ["no"])[-1] == "no":
            sub = (
                {"active": "inactive", "sub": "dead"} if code == 0 else {"active": "failed", "sub": "failed"}
            )
            keep(name, pid=0, restarts=restarts, **sub)
            return
        keep(name, active="activating", sub="auto-restart", pid=0, restarts=restarts, supervisor=os.getpid())
        time.sleep(0.3)
        if (ROOT / f"{name}.stopping").exists():
            keep(name, active="inactive", sub="dead", pid=0, restarts=restarts)
            return
        restarts += 1


def keep(name: str, **fields: object) -> None:
    temporary = ROOT / f"{name}.state.{os.getpid()}"
    temporary.write_text(json.dumps(fields))
    temporary.replace(ROOT / f"{name}.state")


def stop(name: str) -> int:
    """As KillMode=control-group does it: TERM to the main process here, and wait until all is over."""
    stopping = ROOT / f"{name}.stopping"
    stopping.touch()
    limit = time.monotonic() + 20
    while state(name)["ActiveState"] in ("active", "activating") and time.monotonic() < limit:
        pid = int(state(name)["MainPID"])
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        time.sleep(0.1)
    stopping.unlink()
    (ROOT / f"{name}.state").unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
