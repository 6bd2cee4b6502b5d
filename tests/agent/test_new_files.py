"""A file that was not there: put with its folders, gone again with them, whole at every step of the way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oeactl.core.host import Edit, FileWrite, Transaction
from oeactl.edges.agent_program import modules
from oeactl.edges.files import _fields
from oeactl.errors import ConnectionLost, OeactlError, Refused, UsageError
from tests.support.engine_tree import ORIGINAL, PATCHED, ROUTER, Tree, layer, make_tree, sha256
from tests.support.zygote import ZygoteRemote

DATA = "sglang/srt/configs/a b/E=8,N=64,device_name=Some GPU,block_shape=[128, 128].json"
CODE = "sglang/srt/layers/extra.py"
CONTENT = {DATA: b'{"1": {"BLOCK": 16}}', CODE: b"LEVEL = 2\n"}


def put(tree: Tree, kind: Any = "patch", *, code: bytes = CONTENT[CODE], **changes: Any) -> Transaction:
    """Put both files and patch the router, or take all of it back; planned on what is there now."""
    contents = {**CONTENT, CODE: code}
    writes = []
    for name, content in contents.items():
        path = tree.site / name
        now = sha256(path.read_bytes()) if path.exists() else ""
        after = content if kind == "patch" else b""
        writes.append(
            FileWrite(
                module=name,
                path=str(path),
                before_sha256=now,
                after=after,
                after_sha256=sha256(after) if kind == "patch" else "",
                pristine_sha256="",
            )
        )
    router = PATCHED[ROUTER] if kind == "patch" else ORIGINAL[ROUTER]
    transaction = tree.transaction(kind, {ROUTER: router})
    edits = {str(tree.site / name): (Edit(start=0, end=0, text=text),) for name, text in contents.items()}
    one = layer(tree, {ROUTER: router})
    layers = (msgspec.structs.replace(one, edits={**one.edits, **edits}),) if kind == "patch" else ()
    fields = {"files": (*writes, *transaction.files), "layers": layers, **changes}
    return msgspec.structs.replace(transaction, **fields)


def there(tree: Tree) -> set[str]:
    return {str(path.relative_to(tree.site)) for path in tree.site.rglob("*") if path.suffix != ".pyc"}


def test_files_come_with_their_folders_and_go_without_a_trace(tree: Tree) -> None:
    before = there(tree)
    written = tree.files.write(put(tree))
    assert (tree.site / DATA).read_bytes() == CONTENT[DATA]
    assert there(tree) - before == {DATA, CODE, "sglang/srt/configs", "sglang/srt/configs/a b"}
    assert stat.S_IMODE((tree.site / DATA).stat().st_mode) == 0o644
    records = {record.module: record for record in written.journal.files}
    assert records[DATA].pristine_sha256 == "" and len(records[DATA].folders) == 2
    tree.files.write(put(tree, "revert"))
    assert there(tree) == before and tree.contents()[ROUTER] == ORIGINAL[ROUTER]
    assert not tree.state.exists()


def test_a_survey_tells_of_the_file_before_while_and_after(tree: Tree) -> None:
    request = tree.request(modules=(ROUTER, DATA))
    (_, state) = tree.files.survey(request).files
    assert (state.missing, state.path, state.sha256, state.writable) == (
        True,
        str(tree.site / DATA),
        "",
        True,
    )
    tree.files.write(put(tree))
    found = tree.files.survey(tree.request(modules=()))
    assert {file.module for file in found.files} == {DATA, CODE, ROUTER}
    assert {record.module: record.pristine for record in found.journal.files}[DATA] == b""
    state = next(file for file in found.files if file.module == DATA)
    assert (state.missing, state.data) == (False, CONTENT[DATA])


def test_a_file_that_came_in_between_is_not_overwritten(tree: Tree) -> None:
    transaction = put(tree)
    (tree.site / CODE).write_bytes(b"MINE = 1\n")
    with pytest.raises(Refused, match="does not hold what the change was planned on"):
        tree.files.write(transaction)
    assert (tree.site / CODE).read_bytes() == b"MINE = 1\n"
    assert not (tree.site / "sglang/srt/configs").exists() and not tree.state.exists()


def test_somebody_elses_file_in_our_folder_keeps_it(tree: Tree) -> None:
    tree.files.write(put(tree))
    other = tree.site / "sglang/srt/configs/theirs.json"
    other.write_bytes(b"{}")
    tree.files.write(put(tree, "revert"))
    assert other.read_bytes() == b"{}" and not (tree.site / DATA).parent.exists()


def test_a_new_module_is_compiled_and_probed(tree: Tree) -> None:
    with pytest.raises(Refused, match="does not compile"):
        tree.files.write(put(tree, code=b"def f(:\n"))
    probe = tree.probe(modules=("sglang.srt.layers.extra", ROUTER))
    with pytest.raises(Refused, match=r"does not import: sglang\.srt\.layers\.extra"):
        tree.files.write(put(tree, code=b"import no_such_module_here\n", probe=probe))
    assert there(tree) >= {"sglang/srt"} and not (tree.site / CODE).exists()
    tree.files.write(put(tree, probe=probe))
    assert (tree.site / CODE).exists()


def test_the_plain_way_back_takes_them_away(tree: Tree) -> None:
    before = there(tree)
    tree.files.write(put(tree))
    subprocess.run(["sh", "-e", str(tree.state / "RESTORE.txt")], check=True)
    assert there(tree) == before


@pytest.mark.parametrize("name", ["sglang/../evil.py", "/etc/passwd", "other/a.json", "sglang//a", "sglang/"])
def test_only_what_lies_in_the_package_is_named(tree: Tree, name: str) -> None:
    with pytest.raises(UsageError, match="no plain path"):
        tree.files.survey(tree.request(modules=(ROUTER, name)))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_folders_owner_owns_the_file(tree: Tree) -> None:
    os.chown(tree.site / "sglang/srt", 12345, 54321)
    tree.files.write(put(tree))
    for path in ((tree.site / DATA), (tree.site / DATA).parent):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)


@pytest.fixture(scope="module")
def remote() -> Iterator[ZygoteRemote]:
    remote = ZygoteRemote(dict(modules()[1]))
    yield remote
    remote.close()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """Hundreds of fsyncs to a real disk take minutes."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else tmp_path) as folder:
        yield Path(folder)


@pytest.mark.parametrize(("kind", "what"), [("patch", "kill"), ("revert", "kill"), ("patch", "ENOSPC")])
def test_stopped_at_any_step_all_of_it_is_there_or_nothing(
    memory: Path, remote: ZygoteRemote, kind: str, what: str
) -> None:
    def prepared(name: str) -> tuple[Tree, Transaction, set[str]]:
        tree = make_tree(memory / name, sys.executable, remote)
        before = there(tree)
        if kind == "revert":
            tree.files.write(put(tree))
        return tree, put(tree, kind), before

    tree, transaction, _ = prepared("trace")
    with tree.link.watch("write", **_fields(transaction), fault={"trace": True}) as events:
        steps = [event["name"] for event in events if event["event"] == "step"]
    assert {"make folder", "write temporary"} <= set(steps) or kind == "revert"
    failures = []
    for number, name in enumerate(steps):
        tree, transaction, before = prepared(str(number))
        try:
            tree.link.ask("write", **_fields(transaction), fault={"at": number, "do": what})
            lost: OeactlError | None = None
        except OeactlError as error:
            lost = error
        if what == "kill" and not isinstance(lost, ConnectionLost):
            failures.append(f"{number} {name}: it was not killed")
        if tree.files.survey(tree.request(data=False)).journal.pending is not None:
            tree.files.recover(root=tree.root, state_dir=str(tree.state))
        whole = before | {DATA, CODE, "sglang/srt/configs", "sglang/srt/configs/a b"}
        patched = tree.contents()[ROUTER] == PATCHED[ROUTER]
        if there(tree) != (whole if patched else before):
            failures.append(f"{number} {name}: {there(tree) ^ (whole if patched else before)}")
        tree.files.write(put(tree, kind, operation="again"))
        if there(tree) != (whole if kind == "patch" else before):
            failures.append(f"{number} {name}: the second try: {there(tree) ^ whole}")
    assert not failures, "\n".join(failures)
