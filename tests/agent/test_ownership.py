"""Only the owner of an engine may patch it, and two users never keep two records of one engine."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from oeactl.edges.agent_link import AgentLink
from oeactl.edges.local import open_local
from oeactl.errors import Refused
from oeactl.ports import Completed, Dialogue, Remote
from tests.support.engine_tree import ORIGINAL, PATCHED, Tree, make_tree

PYTHON = "/usr/bin/python3"
NOBODY = 65534

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path(PYTHON).exists() or shutil.which("setpriv") is None,
    reason="needs root, setpriv and a system Python",
)


class Prefixed:
    """A Remote whose commands all begin with the same words."""

    def __init__(self, inner: Remote, *prefix: str) -> None:
        self.name = inner.name
        self._inner = inner
        self._prefix = prefix

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0) -> Completed:
        return self._inner.run((*self._prefix, *argv), stdin=stdin, timeout_s=timeout_s)

    def stream(self, argv: Sequence[str], *, stdin: bytes = b"") -> AbstractContextManager[Iterator[bytes]]:
        return self._inner.stream((*self._prefix, *argv), stdin=stdin)

    def converse(self, argv: Sequence[str]) -> Dialogue:
        return self._inner.converse((*self._prefix, *argv))

    def forward(self, port: int) -> AbstractContextManager[int]:
        return self._inner.forward(port)

    def get(self, path: str) -> bytes:
        return self._inner.get(path)

    def close(self) -> None:
        self._inner.close()


AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


@pytest.fixture
def open_tree() -> Iterator[Tree]:
    """A tree that other users can reach."""
    with tempfile.TemporaryDirectory(prefix="oeactl-test-") as folder:
        Path(folder).chmod(0o755)
        yield make_tree(Path(folder), PYTHON)


def through(tree: Tree, *prefix: str) -> Tree:
    return replace(tree, link=AgentLink(Prefixed(open_local(), *prefix), python=PYTHON))


def give(tree: Tree, uid: int) -> None:
    for path in (tree.site.parent, tree.site, *tree.site.rglob("*")):
        os.chown(path, uid, uid)


def test_the_owner_patches_and_reverts_without_being_root(open_tree: Tree) -> None:
    give(open_tree, NOBODY)
    tree = through(open_tree, *AS_NOBODY)
    tree.files.write(tree.transaction(probe=tree.probe()))
    assert tree.contents() == PATCHED
    assert {path.stat().st_uid for path in tree.site.rglob("*")} == {NOBODY}
    tree.files.write(tree.transaction("revert"))
    assert tree.contents() == ORIGINAL


def test_another_users_files_are_refused_with_the_remedy(open_tree: Tree) -> None:
    open_tree.site.parent.chmod(0o777)
    for module in PATCHED:
        open_tree.path(module).chmod(0o666)
        open_tree.path(module).parent.chmod(0o777)
    tree = through(open_tree, *AS_NOBODY)
    file = tree.files.survey(tree.request()).files[0]
    assert not file.writable
    assert "belongs to root" in str(file.problem)
    with pytest.raises(Refused) as caught:
        tree.files.write(tree.transaction())
    assert "belongs to root" in caught.value.what
    assert "become: sudo" in str(caught.value.hint)
    assert tree.contents() == ORIGINAL
    assert not tree.state.exists()


def test_a_folder_that_cannot_be_written_is_refused(open_tree: Tree) -> None:
    give(open_tree, NOBODY)
    folder = next(iter(open_tree.path(module).parent for module in PATCHED))
    os.chown(folder, 0, 0)
    tree = through(open_tree, *AS_NOBODY)
    with pytest.raises(Refused) as caught:
        tree.files.write(tree.transaction())
    assert f"folder {folder} cannot be written" in caught.value.what
    assert tree.contents() == ORIGINAL


def test_roots_record_keeps_the_owner_from_keeping_another(open_tree: Tree) -> None:
    give(open_tree, NOBODY)
    key = hashlib.sha256(open_tree.root.encode()).hexdigest()[:16]
    script = f"mount -t tmpfs none /var/lib && mkdir /var/lib/oeactl && mkdir -m 700 /var/lib/oeactl/{key}"
    tree = through(open_tree, "unshare", "-m", "sh", "-c", f'{script} && exec "$@"', "sh", *AS_NOBODY)
    with pytest.raises(Refused) as caught:
        tree.files.write(tree.transaction(state_dir=None))
    assert "root keeps the record" in caught.value.what
    assert "become: sudo" in str(caught.value.hint)
    assert tree.contents() == ORIGINAL


def test_the_default_record_of_root_lies_in_var_lib_and_is_gone_afterwards(open_tree: Tree) -> None:
    """In a mount namespace of its own; one shell asks twice so that both see the same /var/lib."""
    key = hashlib.sha256(open_tree.root.encode()).hexdigest()[:16]
    tree = through(open_tree, "unshare", "-m", "sh", "-c", 'mount -t tmpfs none /var/lib && exec "$@"', "sh")
    assert tree.files.survey(tree.request(state_dir=None)).host.state_dir == f"/var/lib/oeactl/{key}"
    tree.files.write(tree.transaction(state_dir=None))
    assert tree.contents() == PATCHED
    assert not Path(f"/var/lib/oeactl/{key}").exists(), "the test stayed in its namespace"
