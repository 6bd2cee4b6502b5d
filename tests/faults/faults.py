"""Every fault that is met at a step of a write, and what must hold after it.

A fault takes a fresh subject, runs one command into it, and says how that ended. ``_aftermath`` then looks:
every file byte for byte the original or the patched one, and all of a kind after the next command; modes and
owners kept; the journal says which; a rerun and a revert end well; nothing of ours stays behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oeactl.edges.local import open_local
from oeactl.errors import OeactlError, Unreachable
from oeactl.flows.site import look_settled
from tests.faults.ground import ANN, BOB, ORIGINAL, Ground, Kind, Operator, Relay, Subject
from tests.support.fleet import SECOND_FILE

FOREIGN = b"MODE = 'somebody else wrote this'\n"
GATE_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Met:
    """One fault at one step. ended: how the command did; after: what was on disk once the next one looked."""

    kind: Kind
    step: int
    name: str
    fault: str
    ended: str
    after: str
    complaints: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """meet: run the command into it, and say how it ended. python: of the host's from then on.

    missing: what it needs and is not here. disk: met only where the disk is touched. foreign: a third content
    is on the disk.
    """

    name: str
    about: str
    meet: Callable[[Ground, Subject, Kind, int], str]
    python: Callable[[Subject], str] = lambda subject: sys.executable
    missing: str | None = None
    ssh: bool = False
    disk: bool = False
    foreign: bool = False

    def meets(self, step: Mapping[str, Any]) -> bool:
        """Whether it can happen at that step."""
        return not (self.disk and step["name"] in IN_MEMORY)


def attempt(operator: Operator, kind: Kind, operation: str = "op-1") -> str:
    """The command's status, or its exit code."""
    try:
        return operator.carry_out(kind, operation)
    except OeactlError as error:
        return f"exit {error.exit_code}"


@dataclass
class Gate:
    """A pause of the agent: ``during`` happens in it, once."""

    path: Path
    during: Callable[[], None]
    over: threading.Event = field(default_factory=threading.Event)
    failure: list[BaseException] = field(default_factory=list)

    def fault(self, step: int) -> dict[str, Any]:
        return {"at": step, "do": "pause", "gate": str(self.path)}

    def watch(self) -> None:
        limit = time.monotonic() + GATE_S
        while not self.path.exists():
            if self.over.wait(0.01) or time.monotonic() > limit:
                return
        try:
            self.during()
        except BaseException as error:  # noqa: BLE001 - raised again where the test sees it
            self.failure.append(error)
        finally:
            self.path.unlink()


@contextmanager
def gate(subject: Subject, during: Callable[[], None]) -> Iterator[Gate]:
    made = Gate(subject.fleet.folder / "gate", during)
    thread = threading.Thread(target=made.watch)
    thread.start()
    try:
        yield made
    finally:
        made.over.set()
        thread.join()
    for error in made.failure:
        raise error


#: Steps that touch no disk, so that no errno of a disk is met there.
IN_MEMORY = ("compile", "probe")


def _doing(what: str) -> Callable[[Ground, Subject, Kind, int], str]:
    def meet(ground: Ground, subject: Subject, kind: Kind, step: int) -> str:
        with subject.operator(open_local(), fault={"at": step, "do": what}) as operator:
            return attempt(operator, kind)

    return meet


def _ssh_child(number: int) -> Callable[[Ground, Subject, Kind, int], str]:
    def meet(ground: Ground, subject: Subject, kind: Kind, step: int) -> str:
        server = ground.server
        assert server is not None
        with gate(subject, lambda: server.signal_children(number)) as paused:
            remote = ground.ssh()
            with subject.operator(remote, fault=paused.fault(step)) as operator:
                ended = attempt(operator, kind)
        server.signal_children(signal.SIGCONT)
        server.signal_children(signal.SIGKILL)
        return ended

    return meet


def _reset(ground: Ground, subject: Subject, kind: Kind, step: int) -> str:
    assert ground.server is not None
    relay = Relay(ground.server.port)
    try:
        with (
            gate(subject, relay.reset) as paused,
            subject.operator(ground.ssh(port=relay.port), fault=paused.fault(step)) as operator,
        ):
            return attempt(operator, kind)
    finally:
        relay.close()


def _client_killed(ground: Ground, subject: Subject, kind: Kind, step: int) -> str:
    assert ground.server is not None
    words = [str(subject.fleet.folder), kind, str(step), str(ground.server.folder), str(ground.server.port)]
    client = subprocess.Popen([sys.executable, "-m", "tests.faults.client", *words])
    with gate(subject, client.kill):
        code = client.wait(60)
    return "client killed" if code == -signal.SIGKILL else f"exit {code}"


def _changed_underneath(ground: Ground, subject: Subject, kind: Kind, step: int) -> str:
    def edit() -> None:
        subject.path(SECOND_FILE).write_bytes(FOREIGN)

    with (
        gate(subject, edit) as paused,
        subject.operator(open_local(), fault=paused.fault(step)) as operator,
    ):
        return attempt(operator, kind)


def _race(ground: Ground, subject: Subject, kind: Kind, step: int) -> str:
    other: list[str] = []

    def work() -> None:
        with subject.operator(open_local(), who=BOB) as bob:
            other.append(attempt(bob, kind, "op-2"))

    rival = threading.Thread(target=work)

    def during() -> None:
        rival.start()
        time.sleep(0.3)

    with (
        gate(subject, during) as paused,
        subject.operator(open_local(), fault=paused.fault(step)) as operator,
    ):
        ended = attempt(operator, kind)
    rival.join()
    return f"{ended} / {other[0]}"


# libfaketime cannot be used: with it every other subprocess of CPython ends with EINVAL. So it is the clock
# of Python itself that jumps, in an interpreter that then runs what the real one was given.
JUMPY = """#!{python}
import sys, time
now, now_ns = time.time, time.time_ns
def jump():
    with open({file!r}) as clock:
        return float(clock.read() or 0)
time.time = lambda: now() + jump()
time.time_ns = lambda: now_ns() + int(jump() * 1e9)
at = sys.argv.index("-c")
code, sys.argv = sys.argv[at + 1], ["-c", *sys.argv[at + 2 :]]
exec(compile(code, "<string>", "exec"), {{"__name__": "__main__"}})
"""
JUMP_S = 90 * 86400


def _clock(ground: Ground, subject: Subject, kind: Kind, step: int) -> str:
    """Ninety days forward at even steps, back at odd ones."""
    file = subject.fleet.folder / "clock"
    file.write_text("0")
    python = subject.fleet.folder / "jumpy"
    python.write_text(JUMPY.format(python=sys.executable, file=str(file)))
    python.chmod(0o755)

    def jump() -> None:
        file.write_text(str(-JUMP_S if step % 2 else JUMP_S))

    with (
        gate(subject, jump) as paused,
        subject.operator(open_local(), fault=paused.fault(step), python=str(python)) as operator,
    ):
        return attempt(operator, kind)


def _reboot(ground: Ground, subject: Subject, kind: Kind, step: int) -> str:
    """The agent is gone, and nobody gets through to the host for as long as the command lives."""
    with subject.operator(open_local(), fault={"at": step, "do": "kill"}) as operator:
        first = operator.link.ask

        def ask(op: str, /, **fields: Any) -> Any:
            if "write" in asked:
                raise Unreachable("no route to the host", where="h1")
            asked.append(op)
            return first(op, **fields)

        asked: list[str] = []
        operator.link.ask = ask  # type: ignore[method-assign]
        return attempt(operator, kind)


def _other_boot(subject: Subject) -> str:
    """A Python in whose world the machine was started anew."""
    file = subject.fleet.folder / "boot_id"
    file.write_text("00000000-0000-4000-8000-000000000000\n")
    python = subject.fleet.folder / "rebooted"
    inner = f'mount --bind {file} /proc/sys/kernel/random/boot_id && exec {sys.executable} "$@"'
    python.write_text(f"#!/bin/sh\nexec unshare -m sh -c '{inner}' sh \"$@\"\n")
    python.chmod(0o755)
    return str(python)


NOT_ROOT = None if os.geteuid() == 0 and shutil.which("unshare") else "needs root and unshare"

FAULTS = (
    Fault(name="agent killed", about="SIGKILL to the program on the host", meet=_doing("kill")),
    Fault(name="ssh killed", about="SIGKILL to sshd's processes", meet=_ssh_child(signal.SIGKILL), ssh=True),
    Fault(name="ssh frozen", about="SIGSTOP to sshd's processes", meet=_ssh_child(signal.SIGSTOP), ssh=True),
    Fault(name="reset", about="the connection is reset between client and host", meet=_reset, ssh=True),
    Fault(name="client killed", about="SIGKILL to oeactl", meet=_client_killed, ssh=True),
    Fault(name="disk full", about="ENOSPC", meet=_doing("ENOSPC"), disk=True),
    Fault(name="read-only", about="EROFS", meet=_doing("EROFS"), disk=True),
    Fault(name="permission", about="EACCES", meet=_doing("EACCES"), disk=True),
    Fault(name="clock jump", about="ninety days, to and fro", meet=_clock),
    Fault(
        name="reboot",
        about="killed, out of reach, then another boot id",
        meet=_reboot,
        python=_other_boot,
        missing=NOT_ROOT,
    ),
    Fault(
        name="changed underneath",
        about="somebody writes the second file",
        meet=_changed_underneath,
        foreign=True,
    ),
    Fault(name="two operators", about="another one gives the same command meanwhile", meet=_race),
)


def met(ground: Ground, fault: Fault, kind: Kind, step: dict[str, Any], patched: dict[str, bytes]) -> Met:
    """Meet one fault and look at what is left."""
    subject = ground.subject(kind)
    before = subject.facts()
    ended = fault.meet(ground, subject, kind, step["number"])
    complaints = list(_torn(subject, fault, patched))
    judge = _after_foreign if fault.foreign else _aftermath
    after, further = judge(subject, fault.python(subject), kind, patched)
    complaints += further
    if ended in ("exit 1", "exit 2"):
        complaints.append(f"the command ended with {ended}")
    if not fault.foreign and subject.facts() != before:
        complaints.append(f"mode or owner changed: {before} to {subject.facts()}")
    ground.discard(subject)
    return Met(
        kind=kind,
        step=step["number"],
        name=step["name"],
        fault=fault.name,
        ended=ended,
        after=after,
        complaints=tuple(complaints),
    )


def _torn(subject: Subject, fault: Fault, patched: dict[str, bytes]) -> Iterator[str]:
    for name, data in subject.contents().items():
        known = [ORIGINAL[name], patched[name], *([FOREIGN] if fault.foreign else [])]
        if data not in known:
            yield f"torn: {name} holds {data[:40]!r}..."


def _aftermath(subject: Subject, python: str, kind: Kind, patched: dict[str, bytes]) -> tuple[str, list[str]]:
    found: list[str] = []
    with subject.operator(open_local(), python=python, who=ANN) as operator:
        look_settled(operator.site, ())
        contents = subject.contents()
        after = "original" if contents == ORIGINAL else "patched" if contents == patched else "half"
        journal = operator.journal()
        if after == "half":
            found.append("only some of the files are changed after the next command")
        if bool(journal.layers) != (after == "patched") or journal.pending is not None:
            found.append(f"the journal says otherwise: {journal.layers}, {journal.pending}")
        wanted: list[Kind] = ["patch", "revert"] if kind == "patch" else ["revert", "patch", "revert"]
        for number, then in enumerate(wanted):
            how = attempt(operator, then, f"again-{number}")
            expected = patched if then == "patch" else ORIGINAL
            if how.startswith("exit") or subject.contents() != expected:
                found.append(f"{then} afterwards: {how}")
    if subject.left_behind():
        found.append(f"left behind: {subject.left_behind()}")
    if subject.state.exists():
        found.append(f"the record stays: {sorted(path.name for path in subject.state.iterdir())}")
    return after, found


def _after_foreign(
    subject: Subject, python: str, kind: Kind, patched: dict[str, bytes]
) -> tuple[str, list[str]]:
    """Somebody's bytes are in place or kept, the other file is whole; revert --force makes all original."""
    found: list[str] = []
    contents = subject.contents()
    second = contents[SECOND_FILE]
    after = "theirs stays" if second == FOREIGN else "ours won"
    if second != FOREIGN and FOREIGN not in _kept(subject):
        found.append("somebody's bytes are lost")
    with subject.operator(open_local(), python=python) as operator:
        try:
            operator.carry_out("revert", "force", force=True)
        except OeactlError as error:
            found.append(f"revert --force: {error.what}")
        if second == FOREIGN and subject.contents()[SECOND_FILE] != FOREIGN and FOREIGN not in _kept(subject):
            found.append("revert --force kept no copy")
        journal = operator.journal()
        if journal.layers or journal.pending:
            found.append(f"the journal is not closed: {journal.layers}, {journal.pending}")
    first = {name: data for name, data in subject.contents().items() if name != SECOND_FILE}
    if any(data != ORIGINAL[name] for name, data in first.items()):
        found.append("the other file is not the original")
    if subject.contents()[SECOND_FILE] not in (FOREIGN, ORIGINAL[SECOND_FILE]):
        found.append("their file is neither theirs nor the original")
    if subject.left_behind():
        found.append(f"left behind: {subject.left_behind()}")
    return after, found


def _kept(subject: Subject) -> list[bytes]:
    folder = subject.state / "kept"
    return [path.read_bytes() for path in folder.iterdir()] if folder.is_dir() else []


def patched_contents(ground: Ground) -> dict[str, bytes]:
    subject = ground.subject("revert")
    contents = subject.contents()
    ground.discard(subject)
    return contents
