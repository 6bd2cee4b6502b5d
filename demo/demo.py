"""The main job, here and for real: bench, patch, bench, status, revert of a small MoE model on this CPU.

    make demo        or        python -m demo.demo [WORK-FOLDER]

Runs stock SGLang 0.5.20 with a random-weight GLM-4-MoE (105 M parameters, 128 experts, 8 a token) behind an
sshd of its own on loopback where one is installed, else as ``@local``. Everything it makes is in the work
folder (``demo-work`` here by default); the engine itself is installed once, in the cache. Starts and installs
no service, changes nothing elsewhere, and stops what it started.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from demo import world
from tests.support import sshd

LEVELS = "1,4,16,32"
LOAD_CLIENT = ("--driver", "light")
"""It starts at once; SGLang's own client imports torch for each burst, 150 of the demo's 355 s."""
VOID = 8
BENCH = {"concurrency": [1, 4, 16, 32], "input_len": 64, "output_len": 32, "seed": 42}


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-work").absolute()
    began = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill tidies up as Ctrl-C does
    say("the engine: SGLang 0.5.20 on this CPU, installed once (about 0.6 GB of downloads, two minutes)")
    try:
        engine = world.installed()
    except subprocess.CalledProcessError:
        return 1
    with ExitStack() as stack:
        reach = stack.enter_context(reached(folder))
        make_world(folder, engine, reach)
        before = hashes(folder)
        code = run_all(folder)
        if code == 0:
            say(
                "the files are byte for byte what they were"
                if hashes(folder) == before
                else "NOT restored: the files differ from what they were"
            )
            say(f"results: {folder / 'results' / 'runs'}")
            say(f"{time.monotonic() - began:.0f} s; go on by hand: oeactl start --project {shown(folder)}")
    return code if code or hashes(folder) == before else 1


def run_all(folder: Path) -> int:
    """The commands a person would type; whatever happens, the files go back and the server stops."""
    finished = False
    try:
        runs = []
        oeactl(folder, "start")
        for change in ((), ("patch", "--set", "k0=2", "--yes")):
            if change:
                oeactl(folder, *change)
            oeactl(folder, "bench", "--concurrency", LEVELS, *LOAD_CLIENT, "--experts", fine=(0, VOID))
            runs.append(max(path.name for path in (folder / "results" / "runs").glob("*/*")))
        oeactl(folder, "status")
        oeactl(folder, "revert", "--yes")
        oeactl(folder, "results", "compare", *runs)
        oeactl(folder, "predict", "--from", runs[0], "--k0", "2", "--batch", LEVELS)
        finished = True
    except CommandFailed as failed:
        say(f"this ended with {failed.code}: {failed}")
        return failed.code
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    finally:
        if not finished:
            oeactl(folder, "revert", "--yes", fine=range(256))
        oeactl(folder, "stop", "--yes", fine=range(256))
    return 0


class CommandFailed(Exception):
    """A command of the demo that did not end as it should."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(words)
        self.code = code


def oeactl(folder: Path, *words: str, fine: Any = (0,)) -> None:
    """Show and run one command in the work folder's project."""
    line = ["oeactl", *words, "--project", shown(folder)]
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}$ {' '.join(line)}{plain}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "oeactl", *line[1:]],
        env={**os.environ, "XDG_STATE_HOME": str(folder / "record")},  # not among the user's own hosts
        check=False,
    )
    if done.returncode not in fine:
        raise CommandFailed(" ".join(line), done.returncode)


@contextmanager
def reached(folder: Path) -> Iterator[dict[str, Any] | None]:
    """How the host is reached: an sshd of our own, or None for this machine itself."""
    shutil.rmtree(folder / "ssh", ignore_errors=True)
    if sshd.SSHD is None or shutil.which("ssh") is None:
        say("no sshd is installed here, so the host is @local (apt install openssh-server shows the rest)")
        yield None
        return
    with sshd.running(folder / "ssh") as running:
        say(f"an sshd of our own on 127.0.0.1:{running.port}, with throw-away keys")
        yield {"address": "127.0.0.1", "port": running.port, "ssh_config": running.ssh_config}


def make_world(folder: Path, engine: world.Installed, reach: dict[str, Any] | None) -> None:
    """A fresh copy of the engine and a hosts.yaml; results of earlier demos stay."""
    for name in ("engine", "state", "record"):
        shutil.rmtree(folder / name, ignore_errors=True)
    say(f"its own copy of the engine (168 MB) in {folder / 'engine'}")
    world.copy_engine(engine, folder / "engine")
    entry = world.host_entry(engine, folder, world.free_port(), **(reach or {}))
    world.write_hosts(folder, "demo" if reach else "@local", entry, BENCH)


def hashes(folder: Path) -> list[str]:
    return [hashlib.sha256((folder / "engine" / name).read_bytes()).hexdigest() for name in world.MODULES]


def shown(folder: Path) -> str:
    """The folder as a person here would write it."""
    return str(folder.relative_to(Path.cwd())) if folder.is_relative_to(Path.cwd()) else str(folder)


def say(text: str) -> None:
    print(f"demo: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
