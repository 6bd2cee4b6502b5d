"""The table of faults: every step of patch and revert, every fault, how each ended; all green is the bar.

    python -m tests.faults.table [--every 5] [--workers 4] [--write docs/faults.md]

Prints the table, writes it below the page's line of dashes; ends with 1 where anything was not as it must be.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from oeactl.flows.side_by_side import side_by_side
from tests.faults.faults import FAULTS, Fault, Met, met, patched_contents
from tests.faults.ground import Ground, Kind, quick_folder
from tests.support import sshd

KINDS: tuple[Kind, ...] = ("patch", "revert")
Job = tuple[Fault, Kind, dict[str, Any]]


@contextmanager
def ground(*, ssh: bool = True) -> Iterator[Ground]:
    """A ground with an sshd of its own, whose key is known on every port of loopback."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(TemporaryDirectory(dir=quick_folder())))
        server = None
        if ssh and sshd.SSHD is not None:
            place = Path(opened.enter_context(TemporaryDirectory()))
            server = opened.enter_context(sshd.running(place))
            kind, key, *_ = (place / "host_ed25519.pub").read_text().split()
            with server.known_hosts.open("a") as known:
                known.write(f"127.0.0.1 {kind} {key}\n")
        yield Ground(folder, server)


def missing(fault: Fault) -> str | None:
    if fault.ssh and (sshd.SSHD is None or shutil.which("ssh-keygen") is None):
        return "needs sshd"
    return fault.missing


def jobs(here: Ground, every: int, faults: Sequence[Fault] = FAULTS) -> list[Job]:
    """Every ``every``-th step of each kind, each fault beginning at another, as far as it can be met here."""
    found = []
    for kind in KINDS:
        steps = here.steps(kind)
        for number, fault in enumerate(faults):
            if missing(fault) is None:
                found += [(fault, kind, step) for step in steps[number % every :: every] if fault.meets(step)]
    return found


def meet_all(wanted: Sequence[Job], workers: int) -> list[Met]:
    """Meet them, each worker on a ground of its own."""
    turn, left = threading.Lock(), iter(wanted)

    def work() -> list[Met]:
        done = []
        with ground() as here:
            patched = patched_contents(here)
            while True:
                with turn:
                    job = next(left, None)
                if job is None:
                    return done
                fault, kind, step = job
                done.append(met(here, fault, kind, step, patched))

    found: list[Met] = []
    for ended in side_by_side([work] * workers, at_once=workers):
        assert ended is not None
        if ended.error is not None:
            raise ended.error
        found += ended.value or []
    return found


SHORT = {"original": "o", "patched": "p", "half": "HALF", "theirs stays": "f", "ours won": "w"}


def cell(found: Met) -> str:
    """``6 o``: exit code 6, and the original is there when the next command has looked."""
    ended = found.ended
    for word, short in (
        ("exit ", ""),
        ("already applied", "0"),
        ("nothing to revert", "0"),
        ("patched", "0"),
        ("reverted", "0"),
        ("client killed", "-"),
    ):
        ended = ended.replace(word, short)
    return f"{ended.replace(' / ', '/')} {SHORT[found.after]}" + (" **!**" if found.complaints else "")


def page(found: Sequence[Met]) -> str:
    names = [fault.name for fault in FAULTS if any(one.fault == fault.name for one in found)]
    lines: list[str] = []
    for kind in KINDS:
        lines += [f"### {kind}", "", f"| step | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
        steps = sorted({(one.step, one.name) for one in found if one.kind == kind})
        for number, name in steps:
            cells = {one.fault: cell(one) for one in found if (one.kind, one.step) == (kind, number)}
            lines.append(f"| {number} {name} | {' | '.join(cells.get(fault, '') for fault in names)} |")
        lines.append("")
    wrong = [one for one in found if one.complaints]
    lines.append(f"{len(found)} met, {len(wrong)} not as it must be.")
    lines += [
        f"- {one.kind} {one.step} {one.name}, {one.fault}: {'; '.join(one.complaints)}" for one in wrong
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="every so many-th step")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)) + 1)
    parser.add_argument("--write", type=Path, help="put the table into this page, below its line of dashes")
    options = parser.parse_args()
    begun = time.monotonic()
    with ground(ssh=False) as here:
        wanted = jobs(here, options.every)
    found = meet_all(wanted, options.workers)
    text = page(found)
    print(text)
    print(f"{time.monotonic() - begun:.0f} s", file=sys.stderr)
    for fault in FAULTS:
        if missing(fault):
            print(f"left out: {fault.name} ({missing(fault)})", file=sys.stderr)
    if options.write:
        head, line, _ = options.write.read_text().partition("\n---\n")
        options.write.write_text(f"{head}{line}\n{text}")
    return 1 if any(one.complaints for one in found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
