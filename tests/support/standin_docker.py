"""A stand-in for docker with the one contract that oeactl relies on: argv, output, exit codes, restarts.

STANDIN_DOCKER: a folder with ``NAME.json`` a container: id, argv, env, cwd, restart, network. Its processes
are this machine's, and so are its files. Any other argv than those below is an error, as with a real one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(os.environ["STANDIN_DOCKER"])


def main() -> int:
    match sys.argv[1:]:
        case ["inspect", "--type", "container", name]:
            return inspect(name)
        case ["start", name]:
            return start(name)
        case ["stop", "-t", seconds, name] if seconds.isdigit():
            return stop(name, int(seconds))
        case ["logs", "--tail", count, name]:
            print("\n".join(log(name).read_text().splitlines()[-int(count) :]))
            return 0
        case ["logs", "-f", "--tail", count, name]:
            return follow(name, "\n".join(log(name).read_text().splitlines()[-int(count) :]))
        case ["logs", "-f", "--since", _, name]:
            return follow(name, "")
        case ["cp", "-a", source, "-"] if ":" in source:
            return copy_out(*source.split(":", 1))
        case ["cp", "-a", "-", target] if ":" in target:
            return copy_in(*target.split(":", 1))
        case ["exec", "-i", name, *argv]:
            return run_inside(name, argv)
    print(f"unknown flag or command: {sys.argv[1:]}", file=sys.stderr)
    return 125


def log(name: str) -> Path:
    path = ROOT / f"{name}.log"
    path.touch()
    return path


def made(name: str) -> dict[str, Any] | None:
    path = ROOT / f"{name}.json"
    found: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    if found is None:
        print(f"Error response from daemon: No such container: {name}", file=sys.stderr)
    return found


def state(name: str) -> dict[str, Any]:
    path = ROOT / f"{name}.state"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return {"running": False, "pid": 0, "exit": 0, "restarts": 0, "restarting": False, "begin": 0, **found}


def keep(name: str, **changes: Any) -> None:
    temporary = ROOT / f"{name}.state.{os.getpid()}"
    temporary.write_text(json.dumps({**state(name), **changes}))
    temporary.replace(ROOT / f"{name}.state")


def inspect(name: str) -> int:
    found, now = made(name), state(name)
    if found is None:
        print("[]")
        return 1
    told = {
        "Id": found["id"],
        "RestartCount": now["restarts"],
        "State": {
            "Status": "restarting" if now["restarting"] else "running" if now["running"] else "exited",
            "Running": now["running"] or now["restarting"],
            "Restarting": now["restarting"],
            "Pid": now["pid"],
            "ExitCode": now["exit"],
        },
        "HostConfig": {"NetworkMode": found.get("network", "host")},
    }
    print(json.dumps([told], indent=4))
    return 0


def start(name: str) -> int:
    found = made(name)
    if found is None:
        return 1
    if not state(name)["running"]:
        keep(name, restarts=0, begin=log(name).stat().st_size)
        if os.fork() == 0:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            supervise(name, found)
            os._exit(0)
        limit = time.monotonic() + 10
        while not state(name)["pid"] and time.monotonic() < limit:
            time.sleep(0.02)
    print(name)
    return 0


def supervise(name: str, found: dict[str, Any]) -> None:
    restarts = 0
    env = {"PATH": os.environ["PATH"], **found["env"]}
    while True:
        with log(name).open("ab") as output:
            child = subprocess.Popen(
                found["argv"],
                env=env,
                cwd=found["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        keep(name, running=True, restarting=False, pid=child.pid, restarts=restarts)
        code = child.wait()
        stopped = (ROOT / f"{name}.stopping").exists()
        again = found.get("restart", "no") == "always" and not stopped
        keep(name, running=False, restarting=again, pid=0, exit=code)
        time.sleep(0.3)
        if not again or (ROOT / f"{name}.stopping").exists():
            keep(name, restarting=False)
            return
        restarts += 1


def stop(name: str, seconds: int) -> int:
    if made(name) is None:
        return 1
    stopping = ROOT / f"{name}.stopping"
    stopping.touch()
    limit = time.monotonic() + seconds
    while (now := state(name))["running"] or now["restarting"]:
        if now["pid"]:
            with suppress(ProcessLookupError):
                os.kill(now["pid"], signal.SIGTERM if time.monotonic() < limit else signal.SIGKILL)
        time.sleep(0.1)
    stopping.unlink()
    print(name)
    return 0


def follow(name: str, first: str) -> int:
    if first:
        print(first, flush=True)
    with log(name).open() as file:
        file.seek(*((0, os.SEEK_END) if first else (state(name)["begin"], os.SEEK_SET)))
        while True:
            text = file.read()
            sys.stdout.write(text)
            sys.stdout.flush()
            now = state(name)
            if not text and not now["running"] and not now["restarting"]:
                return 0
            time.sleep(0.05)


def copy_out(name: str, path: str) -> int:
    if made(name) is None or not Path(path).exists():
        print(f"Error response from daemon: Could not find the file {path}", file=sys.stderr)
        return 1
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        archive.add(path, arcname=Path(path).name)
    return 0


def copy_in(name: str, folder: str) -> int:
    if made(name) is None:
        return 1
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
        for member in archive:
            archive.extract(member, folder)
    return 0


def run_inside(name: str, argv: list[str]) -> int:
    found = made(name)
    if found is None:
        return 1
    if not state(name)["running"]:
        print(f"Error response from daemon: container {found['id']} is not running", file=sys.stderr)
        return 1
    os.chdir(found["cwd"])
    return subprocess.call(argv, env={"PATH": os.environ["PATH"], **found["env"]})


if __name__ == "__main__":
    sys.exit(main())
