"""A transaction changes all files or none, keeps everything about them, and can be taken back exactly."""

from __future__ import annotations

import os
import py_compile
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oeactl.core.host import FileWrite, Holder
from oeactl.errors import Locked, Refused, UsageError
from tests.support.engine_tree import ATTENTION, ORIGINAL, PATCHED, ROUTER, Tree, make_tree, sha256
from tests.support.zygote import ZygoteRemote


@pytest.fixture
def tree(tmp_path: Path, zygote: ZygoteRemote) -> Tree:
    return make_tree(tmp_path, sys.executable, zygote)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def names(tree: Tree) -> set[str]:
    return {str(path.relative_to(tree.site)) for path in tree.site.rglob("*") if path.suffix != ".pyc"}


def patch(tree: Tree, **changes: Any) -> Any:
    return tree.files.write(tree.transaction(**changes))


def revert(tree: Tree, **changes: Any) -> Any:
    return tree.files.write(tree.transaction("revert", **changes))


def facts(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


def refusal(tree: Tree, **changes: Any) -> Refused:
    """Try, and see that the refusal changed nothing at all."""
    before, listing, had_state = tree.contents(), names(tree), tree.state.exists()
    with pytest.raises(Refused) as caught:
        patch(tree, **changes)
    assert tree.contents() == before
    assert names(tree) == listing
    assert tree.state.exists() == had_state
    return caught.value


def test_both_files_change_and_come_back_byte_for_byte(tree: Tree) -> None:
    listing = names(tree)
    written = patch(tree)
    assert tree.contents() == PATCHED
    assert names(tree) == listing
    assert written.journal.pending is None
    assert [record.expected_sha256 for record in written.journal.files] == [
        sha256(PATCHED[ROUTER]),
        sha256(PATCHED[ATTENTION]),
    ]
    revert(tree)
    assert tree.contents() == ORIGINAL
    assert names(tree) == listing
    assert not tree.state.exists(), "nothing of ours is left"


def test_mode_owner_and_attributes_stay_and_come_back(tree: Tree) -> None:
    path = tree.path(ROUTER)
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 12345, 54321)
    try:
        os.setxattr(path, "user.note", b"\0kept")
        attributes = True
    except OSError:
        attributes = False
    was = facts(path)
    patch(tree)
    assert facts(path) == was
    path.chmod(0o777)
    revert(tree)
    assert facts(path) == was, "the original's mode, not the one it was given meanwhile"
    if attributes:
        assert os.getxattr(path, "user.note") == b"\0kept"


@pytest.mark.parametrize(
    "content",
    [b"x = 1\r\ny = 2\r\n", b"\xef\xbb\xbfx = 1", b"# -*- coding: latin-1 -*-\ns = '\xe9'\n", b"\t\n\x0c\n"],
)
def test_bytes_that_text_tools_would_mend_are_kept(tree: Tree, content: bytes) -> None:
    path = tree.path(ROUTER)
    path.write_bytes(content)
    write = FileWrite(
        module=ROUTER,
        path=str(path),
        before_sha256=sha256(content),
        after=content + b"\r\nz = 3",
        after_sha256=sha256(content + b"\r\nz = 3"),
        pristine_sha256=sha256(content),
    )
    transaction = tree.transaction()
    tree.files.write(replace_files(transaction, (write,)))
    assert path.read_bytes() == content + b"\r\nz = 3"
    kept = tree.files.journal(root=tree.root, state_dir=str(tree.state))
    back = FileWrite(
        module=ROUTER,
        path=str(path),
        before_sha256=write.after_sha256,
        after=content,
        after_sha256=write.before_sha256,
        pristine_sha256=write.before_sha256,
    )
    assert kept.files[0].pristine_sha256 == write.before_sha256
    tree.files.write(replace_files(tree.transaction("revert"), (back,)))
    assert path.read_bytes() == content


def replace_files(transaction: Any, files: tuple[FileWrite, ...]) -> Any:
    return msgspec.structs.replace(transaction, files=files)


def test_what_the_host_runs_next_is_the_new_code_though_its_bytecode_was_cached(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same size, and a cached .pyc whose mtime and size could match: the classic of stale bytecode."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    env = {"PYTHONPATH": str(tree.site), "PATH": os.environ["PATH"]}

    def route() -> str:
        code = f"import {ROUTER} as module; print(module.route())"
        return subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert len(PATCHED[ROUTER]) == len(ORIGINAL[ROUTER])
    for now, change in (("all", patch), ("few", revert), ("all", patch)):
        assert route() == now
        assert list(tree.path(ROUTER).parent.glob("__pycache__/topk.*.pyc"))
        change(tree)
    assert route() == "few"


def test_bytecode_that_is_never_checked_is_deleted_too(tree: Tree) -> None:
    path = tree.path(ROUTER)
    py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    py_compile.compile(str(path), cfile=str(path) + "c")
    for tag in ("cpython-39", "cpython-311.opt-1"):
        (path.parent / "__pycache__" / f"topk.{tag}.pyc").write_bytes(b"old")
    (path.parent / "__pycache__" / "topk_other.cpython-39.pyc").write_bytes(b"not ours")
    patch(tree)
    assert [file.name for file in path.parent.rglob("*.pyc")] == ["topk_other.cpython-39.pyc"]


def test_bytecode_under_a_prefix_is_deleted_too(tree: Tree, tmp_path: Path) -> None:
    compiled = tmp_path / "cache" / str(tree.path(ROUTER).parent)[1:] / "topk.cpython-311.pyc"
    compiled.parent.mkdir(parents=True)
    compiled.write_bytes(b"old")
    env = {"PYTHONPATH": str(tree.site), "PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}
    patch(tree, probe=tree.probe(env=env))
    assert not compiled.exists()


def test_the_new_file_is_at_least_a_second_younger_even_if_the_old_is_of_the_future(tree: Tree) -> None:
    old = time.time_ns() + 3600 * 10**9
    os.utime(tree.path(ROUTER), ns=(old, old))
    patch(tree)
    between = tree.path(ROUTER).stat().st_mtime_ns
    assert between >= old + 10**9
    revert(tree)
    assert tree.path(ROUTER).stat().st_mtime_ns >= between + 10**9


def test_a_hard_linked_file_is_replaced_and_the_other_name_keeps_the_original(
    tree: Tree, tmp_path: Path
) -> None:
    cache = tmp_path / "cache.py"
    os.link(tree.path(ROUTER), cache)
    written = patch(tree)
    assert cache.read_bytes() == ORIGINAL[ROUTER]
    assert cache.stat().st_nlink == 1
    assert any("hard links" in note for note in written.notes)


def test_a_symlinked_file_stays_a_symlink(tree: Tree, tmp_path: Path) -> None:
    real = tmp_path / "real.py"
    tree.path(ROUTER).rename(real)
    tree.path(ROUTER).symlink_to(real)
    patch(tree)
    assert tree.path(ROUTER).is_symlink()
    assert real.read_bytes() == PATCHED[ROUTER]
    assert not real.is_symlink()


def test_a_file_changed_underneath_refuses_before_anything_is_touched(tree: Tree) -> None:
    transaction = tree.transaction()
    tree.path(ATTENTION).write_bytes(b"MODE = 'foreign'\n")
    before = tree.contents()
    with pytest.raises(Refused) as caught:
        tree.files.write(transaction)
    assert str(tree.path(ATTENTION)) in str(caught.value.where)
    assert any(sha256(b"MODE = 'foreign'\n") in line for line in caught.value.details)
    assert tree.contents() == before
    assert not tree.state.exists()


def test_a_read_only_file_is_refused_with_a_remedy(tree: Tree) -> None:
    tree.path(ATTENTION).chmod(0o444)
    error = refusal(tree)
    assert "read-only" in error.what
    assert "chmod" in str(error.hint)


def test_a_file_that_does_not_compile_is_refused(tree: Tree) -> None:
    error = refusal(tree, contents={**PATCHED, ATTENTION: b"def broken(:\n"})
    assert "does not compile" in error.what
    assert str(tree.path(ATTENTION)) in str(error.where)


@pytest.fixture
def small_disk(tree: Tree) -> Iterator[Path]:
    """The router's folder on 256 kB of tmpfs."""
    folder = tree.path(ROUTER).parent
    source = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)], check=True)
    try:
        for name, data in source.items():
            (folder / name).write_bytes(data)
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@as_root
def test_a_full_disk_is_refused_and_leaves_everything_as_it_was(tree: Tree, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(240 * 1024))
    error = refusal(tree, contents={**PATCHED, ROUTER: b"x = 1\n" + b"#" * 40_000})
    assert "No space left" in error.what
    assert "free some space" in str(error.hint)


@as_root
def test_a_read_only_file_system_is_refused(tree: Tree, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert "cannot be written" in refusal(tree).what


@as_root
def test_a_full_state_disk_is_refused_too(tree: Tree) -> None:
    tree.state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(tree.state)], check=True)
    try:
        (tree.state / "filler").write_bytes(bytes(256 * 1024))
        assert "No space left" in refusal(tree).what
    finally:
        subprocess.run(["umount", str(tree.state)], check=True)


@as_root
def test_a_bind_mounted_file_is_refused_with_the_reason(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "outer.py").write_bytes(ORIGINAL[ROUTER])
    subprocess.run(["mount", "--bind", str(tmp_path / "outer.py"), str(tree.path(ROUTER))], check=True)
    try:
        error = refusal(tree)
        assert "mount" in str(error.hint)
    finally:
        subprocess.run(["umount", str(tree.path(ROUTER))], check=True)


# --- the probe --------------------------------------------------------------------------------------------


def test_a_probe_that_imports_lets_the_change_stand(tree: Tree) -> None:
    patch(tree, probe=tree.probe())
    assert tree.contents() == PATCHED


def test_a_failing_probe_puts_the_very_same_files_back_and_shows_its_last_lines(tree: Tree) -> None:
    inodes = {module: tree.path(module).stat().st_ino for module in PATCHED}
    contents = {**PATCHED, ROUTER: b"import no_such_module_here\n"}
    error = refusal(tree, contents=contents, probe=tree.probe())
    assert "does not import" in error.what
    assert any("no_such_module_here" in line for line in error.details)
    assert {module: tree.path(module).stat().st_ino for module in PATCHED} == inodes


def test_a_probe_sees_no_gpu_and_leaves_no_proof_and_no_bytecode(tree: Tree, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    source = (
        "import os\nroute = None\n"
        f"names = ('CUDA_VISIBLE_DEVICES', 'OEACTL_PROOF', 'MINE')\n"
        f"open({str(seen)!r}, 'w').write(repr([os.environ.get(name) for name in names]))\n"
    )
    env = {"PYTHONPATH": str(tree.site), "MINE": "yes"}
    patch(tree, contents={**PATCHED, ROUTER: source.encode()}, probe=tree.probe(env=env))
    assert seen.read_text() == "['', '0', 'yes']"
    assert not list(tree.site.rglob("*.pyc"))


def test_a_probe_that_hangs_is_ended_and_refused(tree: Tree) -> None:
    source = b"import time\ntime.sleep(60)\n"
    begun = time.monotonic()
    error = refusal(tree, contents={**PATCHED, ROUTER: source}, probe=tree.probe(timeout_s=1.0))
    assert time.monotonic() - begun < 50.0
    assert "did not end" in error.what


SWALLOWING = b"""
try:
    from sglang.srt.layers.moe.topk import missing
except ImportError as error:
    print("12:00:01 Ignore import error when loading models.one:", error)
"""


def test_a_newly_swallowed_import_error_is_refused(tree: Tree) -> None:
    error = refusal(tree, contents={**PATCHED, ATTENTION: SWALLOWING}, probe=tree.probe())
    assert "swallows an import error" in error.what
    assert any("models.one" in line for line in error.details)


def test_an_import_error_that_the_original_swallows_as_well_is_let_pass(tree: Tree) -> None:
    tree.path(ATTENTION).write_bytes(SWALLOWING)
    write = FileWrite(
        module=ATTENTION,
        path=str(tree.path(ATTENTION)),
        before_sha256=sha256(SWALLOWING),
        after=SWALLOWING + b"MODE = 1\n",
        after_sha256=sha256(SWALLOWING + b"MODE = 1\n"),
        pristine_sha256=sha256(SWALLOWING),
    )
    transaction = tree.transaction(contents={ATTENTION: b""}, probe=tree.probe())
    tree.files.write(replace_files(transaction, (write,)))
    assert tree.path(ATTENTION).read_bytes() == SWALLOWING + b"MODE = 1\n"


# --- the record -------------------------------------------------------------------------------------------


def test_the_record_is_private_and_tells_how_to_do_without_oeactl(tree: Tree) -> None:
    patch(tree)
    assert stat.S_IMODE(tree.state.stat().st_mode) == 0o700
    blobs = list((tree.state / "blobs").iterdir())
    assert {blob.read_bytes() for blob in blobs} == set(ORIGINAL.values())
    assert {stat.S_IMODE(path.stat().st_mode) for path in (*blobs, tree.state / "journal.json")} == {0o600}
    subprocess.run(["sh", str(tree.state / "RESTORE.txt")], check=True)
    assert tree.contents() == ORIGINAL
    found = tree.files.survey(tree.request())
    assert found.journal.layers == ()


def test_the_same_message_twice_is_answered_as_done(tree: Tree) -> None:
    transaction = tree.transaction(lease_s=60.0)
    first = tree.files.write(transaction)
    inode = tree.path(ROUTER).stat().st_ino
    assert tree.files.write(transaction) == first
    assert tree.path(ROUTER).stat().st_ino == inode


def test_a_revert_twice_is_a_success_that_changes_nothing(tree: Tree) -> None:
    patch(tree)
    transaction = tree.transaction("revert")
    tree.files.write(transaction)
    tree.files.write(transaction)
    assert tree.contents() == ORIGINAL
    assert not tree.state.exists()


def test_other_parameters_replace_the_patch_and_the_original_is_kept(tree: Tree) -> None:
    patch(tree)
    second = {ROUTER: b"def route():\n    return 'two'\n", ATTENTION: PATCHED[ATTENTION]}
    patch(tree, contents=second, operation="patch-2")
    assert tree.contents() == second
    assert {blob.read_bytes() for blob in (tree.state / "blobs").iterdir()} == set(ORIGINAL.values())
    revert(tree)
    assert tree.contents() == ORIGINAL


def test_a_foreign_edit_is_not_reverted_over_unless_forced_and_then_a_copy_is_kept(tree: Tree) -> None:
    patch(tree)
    foreign = b"def route():\n    return 'mine'\n"
    tree.path(ROUTER).write_bytes(foreign)
    with pytest.raises(Refused):
        revert(tree)
    assert tree.path(ROUTER).read_bytes() == foreign
    assert tree.path(ATTENTION).read_bytes() == PATCHED[ATTENTION]
    written = revert(tree, force=True)
    assert tree.contents() == ORIGINAL
    kept = [note.rpartition(" ")[2] for note in written.notes if "foreign" in note]
    assert [Path(path).read_bytes() for path in kept] == [foreign]


def test_a_record_is_not_closed_over_a_patched_file(tree: Tree) -> None:
    patch(tree)
    with pytest.raises(Refused) as caught:
        tree.files.write(replace_files(tree.transaction("revert"), ()))
    assert "still holds our change" in caught.value.what
    assert tree.files.journal(root=tree.root, state_dir=str(tree.state)).layers


def test_a_record_is_closed_when_another_release_took_the_files_place(tree: Tree) -> None:
    patch(tree)
    for module in PATCHED:
        tree.path(module).write_bytes(b"# another release\n")
    tree.files.write(replace_files(tree.transaction("revert"), ()))
    assert not tree.state.exists()


def test_a_damaged_backup_is_found_before_anything_is_touched(tree: Tree) -> None:
    patch(tree)
    for blob in (tree.state / "blobs").iterdir():
        blob.write_bytes(b"damaged")
    found = tree.files.survey(tree.request())
    assert [record.pristine for record in found.journal.files] == [None, None]
    with pytest.raises(Refused) as caught:
        patch(tree, contents={ROUTER: b"x = 1\n", ATTENTION: b"y = 1\n"}, operation="patch-2")
    assert "no backup" in caught.value.what
    assert tree.contents() == PATCHED


def test_one_state_folder_serves_one_engine(tree: Tree, tmp_path: Path) -> None:
    patch(tree)
    with pytest.raises(Refused) as caught:
        tree.files.journal(root=str(tmp_path), state_dir=str(tree.state))
    assert "another" in caught.value.what or "record of" in caught.value.what


def test_an_operation_id_cannot_become_a_path(tree: Tree) -> None:
    with pytest.raises(UsageError):
        patch(tree, operation="../../evil")


# --- two operators ----------------------------------------------------------------------------------------

BOB = Holder(user="bob", host="desk", pid=2)


def test_a_second_operator_is_told_who_what_and_until_when(tree: Tree) -> None:
    patch(tree, lease_s=600.0)
    with pytest.raises(Locked) as caught:
        revert(tree, operation="other", holder=BOB)
    assert "ann@laptop" in caught.value.what
    assert "patch of oea" in caught.value.what
    assert "until" in "".join(caught.value.details)
    assert tree.contents() == PATCHED


def test_the_same_operation_and_the_same_client_go_on_under_their_lease(tree: Tree) -> None:
    patch(tree, lease_s=600.0)
    revert(tree, operation="patch-1-back")
    assert tree.contents() == ORIGINAL
    patch(tree, lease_s=600.0)
    revert(tree, operation="patch-1", holder=BOB)
    assert tree.contents() == ORIGINAL


def test_a_settled_lease_is_over_and_settling_twice_is_harmless(tree: Tree) -> None:
    patch(tree, lease_s=600.0)
    for operation in ("another", "patch-1", "patch-1"):
        tree.files.settle(root=tree.root, state_dir=str(tree.state), operation=operation)
    revert(tree, operation="other", holder=BOB)
    tree.files.settle(root=tree.root, state_dir=str(tree.state), operation="patch-1")
    assert not tree.state.exists()


def test_an_expired_lease_is_over(tree: Tree) -> None:
    patch(tree, lease_s=0.2)
    time.sleep(0.3)
    revert(tree, operation="other", holder=BOB)
    assert tree.contents() == ORIGINAL


def test_a_lease_alone_holds_a_pristine_host_and_leaves_nothing(tree: Tree) -> None:
    holder = {"user": "ann", "host": "laptop", "pid": 1}
    take = {"root": tree.root, "state_dir": str(tree.state), "operation": "bench-1", "what": "a bench"}
    first = tree.link.ask("lease", **take, holder=holder, lease_s=60.0)["lease"]
    second = tree.link.ask("lease", **take, holder=holder, lease_s=600.0)["lease"]
    assert second["since"] == first["since"]
    assert second["until"] > first["until"] + 500
    with pytest.raises(Locked):
        patch(tree, holder=BOB)
    tree.files.settle(root=tree.root, state_dir=str(tree.state), operation="bench-1")
    assert not tree.state.exists()


def test_two_at_once_do_not_mix(tree: Tree) -> None:
    """Many clients race: exactly one patch stands, whole, and each loser is refused or locked out."""
    outcomes: list[str] = []

    def race(number: int) -> None:
        contents = {module: f"number = {number}\n".encode() for module in PATCHED}
        transaction = tree.transaction(
            contents=contents,
            operation=f"race-{number}",
            lease_s=60.0,
            holder=Holder(user=f"u{number}", host="h", pid=number),
        )
        try:
            tree.beside().files.write(transaction)
            outcomes.append("won")
        except (Locked, Refused):
            outcomes.append("lost")

    threads = [threading.Thread(target=race, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["lost", "lost", "lost", "won"]
    assert len(set(tree.contents().values())) == 1
