"""The engine's files, changed and put back over both transports; also when the connection breaks."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oeactl.edges.agent_link import AgentLink
from oeactl.edges.files import _fields
from oeactl.edges.local import open_local
from oeactl.edges.ssh import open_ssh
from oeactl.errors import ConnectionLost, Refused
from oeactl.ports import Remote
from tests.support import sshd
from tests.support.engine_tree import HOLDER, ORIGINAL, PATCHED, Tree, make_tree
from tests.support.patience import until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Sshd]:
    with sshd.running(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.sshd)])
def remote(request: pytest.FixtureRequest) -> Iterator[Remote]:
    if request.param == "local":
        remote = open_local()
    else:
        server = request.getfixturevalue("server")
        remote = open_ssh(name="lab", address=server.address, port=server.port, ssh_config=server.ssh_config)
    yield remote
    remote.close()


@pytest.fixture
def tree(tmp_path: Path, remote: Remote) -> Tree:
    return make_tree(tmp_path, sys.executable, remote)


def test_look_patch_look_revert(tree: Tree) -> None:
    before = tree.files.survey(tree.request())
    assert {file.module: file.data for file in before.files} == ORIGINAL
    tree.files.write(tree.transaction(probe=tree.probe(), lease_s=60.0))
    patched = tree.files.survey(tree.request())
    assert {file.module: file.data for file in patched.files} == PATCHED
    assert [record.pristine for record in patched.journal.files] == list(ORIGINAL.values())
    assert patched.journal.lease is not None
    assert patched.journal.lease.holder == HOLDER
    tree.files.settle(root=tree.root, state_dir=str(tree.state), operation="patch-1")
    tree.files.write(tree.transaction("revert"))
    after = tree.files.survey(tree.request())
    assert [file.data for file in after.files] == [file.data for file in before.files]
    assert after.journal == before.journal
    assert not tree.state.exists()


def test_a_large_file_passes(tree: Tree) -> None:
    contents = dict.fromkeys(PATCHED, b"x = 1\n" + b"# filler\n" * 120000)
    tree.files.write(tree.transaction(contents=contents))
    assert {file.module: file.data for file in tree.files.survey(tree.request()).files} == contents


def test_a_refusal_names_host_and_path(tree: Tree) -> None:
    for module in PATCHED:
        tree.path(module).chmod(0o444)
    with pytest.raises(Refused) as caught:
        tree.files.write(tree.transaction())
    host, _, path = str(caught.value.where).partition(":")
    assert host in ("@local", "lab")
    assert path == str(tree.path(next(iter(PATCHED))))


def beats(pid: int) -> bool:
    """Whether the agent still shows its client that it lives: the thread that does ends with the client."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except OSError:
        return False


@pytest.mark.sshd
def test_a_connection_cut_during_a_patch_leaves_the_outcome_unknown_and_the_files_whole(
    tmp_path: Path, server: sshd.Sshd
) -> None:
    """The agent stands before its second rename when sshd dies; it finds its client gone, and undoes."""
    remote = open_ssh(name="lab", address=server.address, port=server.port, ssh_config=server.ssh_config)
    tree = make_tree(tmp_path, sys.executable, remote)
    with tree.link.watch("write", **_fields(tree.transaction()), fault={"trace": True}) as events:
        steps = [event["name"] for event in events if event["event"] == "step"]
    tree.files.write(tree.transaction("revert"))
    gate = tmp_path / "gate"
    fault = {"at": steps.index("rename") + 4, "do": "pause", "gate": str(gate)}

    def cut() -> None:
        until(gate.exists)
        agents = server.commands()
        server.signal_children(signal.SIGKILL)
        until(lambda: not any(beats(pid) for pid in agents))
        gate.unlink()

    thread = threading.Thread(target=cut)
    thread.start()
    with pytest.raises(ConnectionLost) as caught:
        tree.link.ask("write", **_fields(tree.transaction(operation="cut")), fault=fault)
    assert caught.value.exit_code == 7
    thread.join()
    # The next command waits for the agent's lock, reads the journal, and goes on.
    here = replace(tree, link=AgentLink(open_local(), python=sys.executable))
    here.files.recover(root=tree.root, state_dir=str(tree.state))
    assert tree.contents() == ORIGINAL
    assert not list(tree.site.rglob(".*oeactl*"))
    tree.files.write(tree.transaction(operation="cut"))
    assert tree.contents() == PATCHED
    remote.close()


@pytest.mark.sshd
def test_noise_of_rc_files_does_no_harm(tmp_path: Path, server: sshd.Sshd) -> None:
    noise = server.home / ".bashrc"
    noise.write_text("echo welcome; seq 1000; echo oops >&2\n")
    remote = open_ssh(name="lab", address=server.address, port=server.port, ssh_config=server.ssh_config)
    tree = make_tree(tmp_path, sys.executable, remote)
    tree.files.write(tree.transaction())
    with tree.link.watch("journal", root=tree.root, state_dir=str(tree.state)) as events:
        (answer,) = events
    assert answer["value"]["layers"][0]["recipe"] == "oea"
    noise.unlink()
    remote.close()
