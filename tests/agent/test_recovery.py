"""The world stops at every step of a transaction: then all files are old or all are new, and nothing is left.

The steps are the code's own: a traced run tells how many there are, and each is then met by each fault.
"""

from __future__ import annotations

import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oeactl.core.host import Transaction
from oeactl.edges.files import _fields
from oeactl.errors import ConnectionLost, OeactlError, Refused
from tests.support.engine_tree import ATTENTION, ORIGINAL, PATCHED, ROUTER, Tree, make_tree
from tests.support.zygote import ZygoteRemote

KINDS = ("patch", "revert")


class Ground:
    """Makes trees on which transactions can be run, all over one quick remote."""

    def __init__(self, folder: Path, remote: ZygoteRemote) -> None:
        self._folder = folder
        self._remote = remote
        self._count = 0

    def prepared(self, kind: str) -> tuple[Tree, Transaction]:
        self._count += 1
        tree = make_tree(self._folder / str(self._count), sys.executable, self._remote)
        tree.path(ROUTER).chmod(0o640)
        if kind == "revert":
            tree.files.write(tree.transaction())
        return tree, tree.transaction(kind)

    def steps(self, kind: str) -> list[dict[str, Any]]:
        """Every step of a transaction of ``kind``, in order, as a traced run reaches them."""
        tree, transaction = self.prepared(kind)
        with tree.link.watch("write", **_fields(transaction), fault={"trace": True}) as events:
            return [dict(event) for event in events if event["event"] == "step"]

    def step(self, kind: str, name: str) -> int:
        """The number of the first step of that name."""
        return [step["name"] for step in self.steps(kind)].index(name)


@pytest.fixture
def ground(tmp_path: Path, zygote: ZygoteRemote) -> Iterator[Ground]:
    """In memory where that can be had: hundreds of fsyncs to a real disk take minutes."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Ground(Path(folder), zygote)


def meet(tree: Tree, transaction: Transaction, **fault: Any) -> OeactlError | None:
    try:
        tree.link.ask("write", **_fields(transaction), fault=fault)
    except OeactlError as error:
        return error
    return None


def recover(tree: Tree) -> None:
    """What the next command does first."""
    found = tree.files.survey(tree.request(data=False))
    if found.journal.pending is not None:
        tree.files.recover(root=tree.root, state_dir=str(tree.state))


def temporary(tree: Tree) -> list[str]:
    return [path.name for path in tree.site.rglob(".*oeactl*")]


def complaints(tree: Tree) -> Iterator[str]:
    """What is wrong after recovery; nothing, it is hoped."""
    contents = tree.contents()
    if contents not in (ORIGINAL, PATCHED):
        yield f"half a change: {contents}"
    if stat.S_IMODE(tree.path(ROUTER).stat().st_mode) != 0o640:
        yield "the mode was lost"
    if temporary(tree):
        yield f"left behind: {temporary(tree)}"
    journal = tree.files.journal(root=tree.root, state_dir=str(tree.state))
    if journal.pending is not None:
        yield f"still pending: {journal.pending}"
    if bool(journal.layers) != (contents == PATCHED):
        yield "the journal says otherwise"
    if contents == ORIGINAL and tree.state.exists():
        yield f"a record without a change: {sorted(path.name for path in tree.state.iterdir())}"


def ends_well(tree: Tree, kind: str) -> Iterator[str]:
    """The same command once more, planned on what is there now."""
    tree.files.write(tree.transaction(kind, operation="again"))
    yield from complaints(tree)
    if tree.contents() != (PATCHED if kind == "patch" else ORIGINAL):
        yield "the second try did nothing"
    unfinished = [path.name for path in tree.site.parent.rglob("*.new")]
    if unfinished:
        yield f"left behind: {unfinished}"


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_any_step_the_next_command_finds_or_makes_it_whole(ground: Ground, kind: str) -> None:
    failures = []
    for step in ground.steps(kind):
        tree, transaction = ground.prepared(kind)
        assert isinstance(meet(tree, transaction, at=step["number"], do="kill"), ConnectionLost)
        contents = set(tree.contents().items())
        torn = contents - set(ORIGINAL.items()) - set(PATCHED.items())
        recover(tree)
        found = [f"torn: {torn}"] if torn else []
        found += [*complaints(tree), *ends_well(tree, kind)]
        failures += [f"{step['number']} {step['name']}: {what}" for what in found]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize(("kind", "what"), [("patch", "ENOSPC"), ("revert", "EIO"), ("patch", "term")])
def test_failing_or_ended_at_any_step_everything_is_back_at_once_or_done(
    ground: Ground, kind: str, what: str
) -> None:
    failures = []
    for step in ground.steps(kind):
        tree, transaction = ground.prepared(kind)
        before = tree.contents()
        error = meet(tree, transaction, at=step["number"], do=what)
        found = []
        if isinstance(error, Refused) and tree.contents() != before:
            found.append("refused, and changed all the same")
        if error is None and tree.contents() == before:
            found.append("done, it says, and nothing changed")
        if tree.contents() not in (ORIGINAL, PATCHED):
            found.append("half a change")
        recover(tree)
        found += complaints(tree)
        failures += [f"{step['number']} {step['name']}: {what}" for what in found]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_again_while_recovering_it_still_ends_whole(ground: Ground, kind: str) -> None:
    between_the_renames = ground.step(kind, "rename") + 1
    tree, transaction = ground.prepared(kind)
    meet(tree, transaction, at=between_the_renames, do="kill")
    assert tree.contents() not in (ORIGINAL, PATCHED), "the world stopped between the two renames"
    request = {"root": tree.root, "state_dir": str(tree.state)}
    with tree.link.watch("recover", **request, fault={"trace": True}) as events:
        count = sum(event["event"] == "step" for event in events)
    assert count > 2
    failures = []
    for number in range(count):
        tree, transaction = ground.prepared(kind)
        meet(tree, transaction, at=between_the_renames, do="kill")
        with pytest.raises(ConnectionLost):
            tree.link.ask(
                "recover", root=tree.root, state_dir=str(tree.state), fault={"at": number, "do": "kill"}
            )
        recover(tree)
        failures += [f"{number}: {what}" for what in complaints(tree)]
        if tree.contents() != ORIGINAL:
            failures.append(f"{number}: a patch is undone and a revert finished, always")
    assert not failures, "\n".join(failures)


def test_recovery_says_what_it_did(ground: Ground) -> None:
    for kind, verb in (("patch", "undid"), ("revert", "finished")):
        tree, transaction = ground.prepared(kind)
        at = ground.step(kind, "rename") + 1
        meet(tree, transaction, at=at, do="kill")
        pending = tree.files.survey(tree.request()).journal.pending
        assert pending is not None
        assert (pending.kind, pending.operation) == (kind, f"{kind}-1")
        recovered = tree.files.recover(root=tree.root, state_dir=str(tree.state)).recovered
        assert str(recovered).startswith(f"{verb} the {kind} {kind}-1 that ann@laptop began")
        assert tree.files.recover(root=tree.root, state_dir=str(tree.state)).recovered is None


def test_a_message_sent_again_after_a_crash_is_carried_out(ground: Ground) -> None:
    """The client's connection broke, it connects anew and repeats the very same message."""
    for kind in KINDS:
        tree, transaction = ground.prepared(kind)
        at = ground.step(kind, "rename") + 1
        meet(tree, transaction, at=at, do="kill")
        tree.files.write(transaction)
        assert tree.contents() == (PATCHED if kind == "patch" else ORIGINAL)
        assert not list(complaints(tree))


def test_a_foreign_edit_after_a_crash_is_not_overwritten_and_force_goes_on(ground: Ground) -> None:
    tree, transaction = ground.prepared("patch")
    at = ground.step("patch", "rename") + 1
    meet(tree, transaction, at=at, do="kill")
    foreign = b"MODE = 'foreign'\n"
    tree.path(ATTENTION).write_bytes(foreign)
    with pytest.raises(Refused) as caught:
        tree.files.recover(root=tree.root, state_dir=str(tree.state))
    assert str(tree.path(ATTENTION)) in str(caught.value.where)
    assert tree.path(ATTENTION).read_bytes() == foreign
    written = tree.files.write(tree.transaction("revert", force=True))
    assert tree.contents() == ORIGINAL
    assert not temporary(tree)
    kept = [Path(note.rpartition(" ")[2]) for note in written.notes if "foreign" in note]
    assert [path.read_bytes() for path in kept] == [foreign]


@pytest.mark.parametrize("kind", KINDS)
def test_forced_recovery_keeps_a_copy_of_the_foreign_file_and_ends_what_was_cut_short(
    ground: Ground, kind: str
) -> None:
    tree, transaction = ground.prepared(kind)
    meet(tree, transaction, at=ground.step(kind, "rename") + 1, do="kill")
    foreign = b"MODE = 'foreign'\n"
    tree.path(ATTENTION).write_bytes(foreign)
    tree.path(ROUTER).unlink()
    journal = tree.files.recover(root=tree.root, state_dir=str(tree.state), force=True)
    assert journal.pending is None and journal.layers == ()
    assert tree.contents() == ORIGINAL
    assert not temporary(tree)
    assert journal.recovered is not None
    (kept,) = [part for part in journal.recovered.split("; ") if "is kept as" in part]
    assert Path(kept.rpartition(" ")[2]).read_bytes() == foreign


@pytest.mark.parametrize("name", ["check source", "rename"])
def test_a_file_changed_in_the_last_moment_is_left_as_it_is(
    ground: Ground, tmp_path: Path, name: str
) -> None:
    """Before its last look, and after it, before the rename; the other file, changed already, goes back."""
    tree, transaction = ground.prepared("patch")
    at = [step["number"] for step in ground.steps("patch") if step["name"] == name][1]
    gate = tmp_path / "gate"
    foreign = b"MODE = 'foreign'\n"

    def edit() -> None:
        while not gate.exists():
            time.sleep(0.01)
        tree.path(ATTENTION).write_bytes(foreign)
        gate.unlink()

    thread = threading.Thread(target=edit)
    thread.start()
    error = meet(tree, transaction, at=at, do="pause", gate=str(gate))
    thread.join()
    assert error is not None
    assert tree.contents() == {**ORIGINAL, ATTENTION: foreign}
    assert not temporary(tree)


def test_while_one_writes_the_other_waits_and_then_sees_the_lease(ground: Ground, tmp_path: Path) -> None:
    tree, _ = ground.prepared("patch")
    transaction = tree.transaction(lease_s=60.0)
    at = ground.step("patch", "rename")
    gate = tmp_path / "gate"
    outcomes: list[OeactlError | None] = []

    def second() -> None:
        while not gate.exists():
            time.sleep(0.01)
        other = tree.transaction(
            "revert", operation="other", holder={"user": "bob", "host": "desk", "pid": 2}
        )
        threading.Timer(0.5, gate.unlink).start()
        outcomes.append(meet(tree.beside(), other))

    thread = threading.Thread(target=second)
    thread.start()
    assert meet(tree, transaction, at=at, do="pause", gate=str(gate)) is None
    thread.join()
    assert [type(outcome).__name__ for outcome in outcomes] == ["Locked"]
    assert tree.contents() == PATCHED


def test_a_frozen_agent_holds_the_lock_and_says_who_it_is(ground: Ground, tmp_path: Path) -> None:
    """Tested with a short wait: the second one gives up and names the first."""
    tree, transaction = ground.prepared("patch")
    at = ground.step("patch", "rename")
    gate = tmp_path / "gate"
    thread = threading.Thread(
        target=meet, args=(tree, transaction), kwargs={"at": at, "do": "pause", "gate": str(gate)}
    )
    thread.start()
    while not gate.exists():
        time.sleep(0.01)
    error = None
    try:
        tree.beside().link.ask("recover", root=tree.root, state_dir=str(tree.state), lock_wait_s=0.2)
    except OeactlError as caught:
        error = caught
    gate.unlink()
    thread.join()
    assert type(error).__name__ == "Locked"
    assert "ann@laptop" in str(error)
