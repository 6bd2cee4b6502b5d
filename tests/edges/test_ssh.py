"""Connections over a real sshd: each way they fail has its own message, and nobody unknown is let pass."""

from __future__ import annotations

import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paramiko
import pytest

from oeactl.edges.agent_link import AgentLink
from oeactl.edges.ssh import dial, open_ssh
from oeactl.edges.ssh import remote as ssh_remote
from oeactl.edges.ssh.host_keys import fingerprint
from oeactl.errors import ConnectionLost, OeactlError, Unreachable, UsageError
from oeactl.ports import Remote
from tests.support import sshd
from tests.support.patience import until

pytestmark = pytest.mark.sshd


@pytest.fixture
def server(tmp_path: Path) -> Iterator[sshd.Sshd]:
    with sshd.running(tmp_path) as server:
        yield server


def reach(server: sshd.Sshd, **changes: Any) -> Remote:
    fields: dict[str, Any] = {
        "name": "lab",
        "address": server.address,
        "port": server.port,
        "ssh_config": server.ssh_config,
        "environment": {},
        "connect_timeout_s": 60.0,
    }
    return open_ssh(**{**fields, **changes})


def failure(remote: Remote) -> OeactlError:
    with pytest.raises(OeactlError) as caught:
        remote.run(("true",))
    remote.close()
    return caught.value


def host_fingerprint(server: sshd.Sshd) -> str:
    shown = subprocess.run(
        ["ssh-keygen", "-lf", str(server.folder / "host_ed25519.pub")],
        check=True,
        capture_output=True,
        text=True,
    )
    return shown.stdout.split()[1]


# --- who is there -----------------------------------------------------------------------------------------


def test_an_unknown_host_key_is_refused_with_its_fingerprint_and_the_command_that_adds_it(
    server: sshd.Sshd,
) -> None:
    server.known_hosts.unlink()
    error = failure(reach(server))
    assert isinstance(error, Unreachable)
    assert f"{server.address}:{server.port} is not known" in error.what
    assert host_fingerprint(server) in "".join(error.details)
    assert not server.known_hosts.exists(), "it was not added behind our back"
    command = str(error.hint).rpartition("then: ")[2]
    assert shlex.split(command)[0] == "ssh-keyscan"
    subprocess.run(["sh", "-c", command], check=True, stderr=subprocess.DEVNULL)
    assert reach(server).run(("true",)).returncode == 0


def test_a_changed_host_key_is_refused_and_the_old_line_named(server: sshd.Sshd, tmp_path: Path) -> None:
    sshd.make_key(tmp_path / "other")
    server.known_hosts.unlink()
    sshd.trust(server.known_hosts, server.address, server.port, tmp_path / "other.pub")
    error = failure(reach(server))
    assert isinstance(error, Unreachable)
    assert "CHANGED" in error.what
    assert f"{server.known_hosts}:1" in "".join(error.details)
    command = str(error.hint).partition(": ")[2]
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert reach(server).run(("true",)).returncode == 0


def test_no_key_of_ours_is_shown_to_a_host_that_is_not_known(server: sshd.Sshd) -> None:
    server.known_hosts.unlink()
    failure(reach(server))
    assert "Accepted publickey" not in (server.folder / "sshd.log").read_text()


def test_a_revoked_host_key_is_refused_though_it_is_also_listed(server: sshd.Sshd) -> None:
    with server.known_hosts.open("a") as file:
        file.write("@revoked * " + (server.folder / "host_ed25519.pub").read_text())
    assert "revoked" in failure(reach(server)).what


@pytest.mark.parametrize("names", ["[127.0.0.*]:{port}", "*", "127.0.0.1", "other,[127.0.0.1]:{port}"])
def test_host_keys_are_found_as_openssh_finds_them(server: sshd.Sshd, names: str) -> None:
    key = (server.folder / "host_ed25519.pub").read_text()
    server.known_hosts.write_text(f"# a comment\n\n{names.format(port=server.port)} {key}")
    assert reach(server).run(("true",)).returncode == 0


def test_a_negated_pattern_makes_a_host_unknown(server: sshd.Sshd) -> None:
    key = (server.folder / "host_ed25519.pub").read_text()
    server.known_hosts.write_text(f"*,!*127.0.0.1* {key}")
    assert "not known" in failure(reach(server)).what


def test_hashed_names_are_found(server: sshd.Sshd) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-H", "-f", str(server.known_hosts)], check=True, stderr=subprocess.DEVNULL
    )
    assert server.known_hosts.read_text().startswith("|1|")
    assert reach(server).run(("true",)).returncode == 0


def test_the_known_kind_of_host_key_is_asked_for_before_a_better_one(tmp_path: Path) -> None:
    sshd.make_key(tmp_path / "host_ecdsa", kind="ecdsa")
    with sshd.running(tmp_path, extra=(f"HostKey {tmp_path}/host_ecdsa",)) as server:
        server.known_hosts.unlink()
        sshd.trust(server.known_hosts, server.address, server.port, tmp_path / "host_ecdsa.pub")
        assert reach(server).run(("true",)).returncode == 0


def test_a_host_key_alias_is_looked_up_instead_of_the_address(server: sshd.Sshd) -> None:
    key = (server.folder / "host_ed25519.pub").read_text()
    server.known_hosts.write_text(f"the-lab {key}")
    with Path(server.ssh_config).open("a") as file:
        file.write("  HostKeyAlias the-lab\n")
    assert reach(server).run(("true",)).returncode == 0


# --- what does not answer ---------------------------------------------------------------------------------


def test_a_closed_port_is_said_with_host_and_port(server: sshd.Sshd) -> None:
    with socket.socket() as taken:  # by us, so that nobody else comes to listen there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        error = failure(reach(server, port=port))
    assert isinstance(error, Unreachable)
    assert not isinstance(error, ConnectionLost)
    assert f"nothing listens on 127.0.0.1:{port}" in error.what
    assert error.where == "lab"
    assert error.hint


def test_a_server_of_another_kind_is_said_to_be_one(server: sshd.Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        thread = threading.Thread(target=answer_as_web_server, args=(other,))
        thread.start()
        error = failure(reach(server, port=other.getsockname()[1]))
        thread.join()
    assert "not as an SSH server" in error.what


def answer_as_web_server(listener: socket.socket) -> None:
    client, _ = listener.accept()
    with client:
        client.sendall(b"HTTP/1.1 400 Bad Request\r\n" * 200)


def test_a_server_that_never_speaks_ends_within_the_timeout(server: sshd.Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        error = failure(reach(server, port=silent.getsockname()[1], connect_timeout_s=1.0))
    assert time.monotonic() - begun < 30.0
    assert isinstance(error, Unreachable)


def test_a_server_that_drops_logins_is_tried_again(tmp_path: Path) -> None:
    """MaxStartups drops every login while somebody else's is under way."""
    with sshd.running(tmp_path, extra=("MaxStartups 1",)) as server:
        other, log = under_way(server), tmp_path / "sshd.log"
        before = len(log.read_bytes())

        def give_way() -> None:
            with other:
                until(lambda: b"past MaxStartups" in log.read_bytes()[before:])

        thread = threading.Thread(target=give_way)
        thread.start()
        remote = reach(server)
        assert remote.run(("true",)).returncode == 0
        remote.close()
        thread.join()


def under_way(server: sshd.Sshd) -> socket.socket:
    """A login that somebody has begun."""
    while True:
        other = socket.create_connection((server.address, server.port))
        if other.recv(4) == b"SSH-":
            return other
        other.close()
        time.sleep(0.05)


def test_a_server_that_hangs_up_without_a_word_is_said_to_keep_us_out(server: sshd.Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        dropped: list[int] = []
        thread = threading.Thread(target=hang_up, args=(door, dropped))
        thread.start()
        error = failure(reach(server, port=door.getsockname()[1]))
        door.close()
        thread.join()
    assert isinstance(error, Unreachable)
    assert not isinstance(error, ConnectionLost)
    assert "drops the connection" in error.what
    assert len(dropped) == 1 + len(dial.RETRY_S)


def hang_up(listener: socket.socket, dropped: list[int]) -> None:
    while len(dropped) < 1 + len(dial.RETRY_S):
        client, _ = listener.accept()
        dropped.append(client.fileno())
        client.close()


def test_sixty_four_logins_at_one_server_all_come_in(server: sshd.Sshd) -> None:
    """Its MaxStartups is 10:30:100 as installed: of so many at once a third would be dropped."""
    outcomes: list[int | None] = []

    def work() -> None:
        remote = reach(server)
        outcomes.append(remote.run(("true",)).returncode)
        remote.close()

    threads = [threading.Thread(target=work) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [0] * 64


# --- who we are -------------------------------------------------------------------------------------------


def test_a_key_that_is_not_taken_is_named_with_the_remedy(server: sshd.Sshd, tmp_path: Path) -> None:
    sshd.make_key(tmp_path / "stranger")
    (server.folder / "authorized_keys").write_text("")
    error = failure(reach(server, identity_file=str(tmp_path / "stranger")))
    assert isinstance(error, Unreachable)
    assert f"@{server.address}:{server.port}" in error.what
    assert f"{tmp_path}/stranger: not taken" in error.details
    assert "identity_file" in str(error.hint)


def test_a_key_file_that_is_not_there_is_a_usage_error(server: sshd.Sshd, tmp_path: Path) -> None:
    error = failure(reach(server, identity_file=str(tmp_path / "nothing")))
    assert isinstance(error, UsageError)


def test_an_encrypted_key_and_a_wrong_passphrase_are_two_errors_and_the_right_one_works(
    server: sshd.Sshd, tmp_path: Path
) -> None:
    sshd.make_key(tmp_path / "locked", passphrase="correct horse")
    shutil.copy(tmp_path / "locked.pub", server.folder / "authorized_keys")
    config = Path(server.ssh_config)
    config.write_text(config.read_text().replace("client_ed25519", "locked"))
    without = failure(reach(server))
    assert "encrypted" in "".join(without.details)
    assert "OEACTL_KEY_PASSPHRASE" in str(without.hint)
    unanswered = failure(reach(server, passphrase=lambda path: None))
    assert "encrypted" in "".join(unanswered.details)
    wrong = failure(reach(server, passphrase=lambda path: "battery staple"))
    assert "wrong passphrase" in "".join(wrong.details)
    assert "battery staple" not in str(wrong.details) + wrong.what + str(wrong.hint)
    right = {str(tmp_path / "locked"): "correct horse"}
    assert reach(server, passphrase=right.get).run(("true",)).returncode == 0


def test_too_many_wrong_keys_are_said_to_be_too_many(tmp_path: Path) -> None:
    with sshd.running(tmp_path, extra=("MaxAuthTries 2",)) as server:
        config = Path(server.ssh_config)
        for number in range(4):
            sshd.make_key(tmp_path / f"wrong{number}")
            with config.open("a") as file:
                file.write(f"  IdentityFile {tmp_path}/wrong{number}\n")
        (server.folder / "authorized_keys").write_text("")
        error = failure(reach(server))
    assert "hung up" in error.what
    assert "IdentitiesOnly" in str(error.hint)


def test_a_key_in_the_agent_is_used_and_the_named_one_comes_first(tmp_path: Path) -> None:
    with (
        sshd.running(tmp_path, extra=("MaxAuthTries 2",)) as server,
        agent() as socket_path,
    ):
        for number in range(4):
            sshd.make_key(tmp_path / f"wrong{number}")
            add_to_agent(socket_path, tmp_path / f"wrong{number}")
        add_to_agent(socket_path, tmp_path / "client_ed25519")
        (tmp_path / "client_ed25519").unlink()
        remote = reach(server, environment={"SSH_AUTH_SOCK": socket_path})
        assert remote.run(("true",)).returncode == 0
        remote.close()


class agent:
    """An ssh-agent of our own; the path of a socket is short."""

    def __enter__(self) -> str:
        self._folder = tempfile.TemporaryDirectory(dir="/tmp")
        path = f"{self._folder.name}/agent"
        self._process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
        until(Path(path).exists)
        return path

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()


def add_to_agent(socket_path: str, key: Path) -> None:
    subprocess.run(
        ["ssh-add", "-q", str(key)], check=True, env={"SSH_AUTH_SOCK": socket_path, "PATH": "/usr/bin:/bin"}
    )


# --- the way there ----------------------------------------------------------------------------------------


def test_include_and_match_are_followed(server: sshd.Sshd, tmp_path: Path) -> None:
    (tmp_path / "more").write_text(f"Match originalhost box\n  HostName 127.0.0.1\n  Port {server.port}\n")
    config = Path(server.ssh_config)
    config.write_text(f"Include {tmp_path}/more\n" + config.read_text())
    assert reach(server, address="box", port=None).run(("true",)).returncode == 0


def test_a_jump_host_is_gone_through_and_its_key_checked_too(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "jump").mkdir()
    with sshd.running(tmp_path / "inner") as inner, sshd.running(tmp_path / "jump") as jump:
        with inner.known_hosts.open("a") as file:
            file.write(jump.known_hosts.read_text())
        shutil.copy(inner.folder / "authorized_keys", jump.folder / "authorized_keys")
        through = f"{jump.address}:{jump.port}"
        remote = reach(inner, proxy_jump=through)
        assert remote.run(("true",)).returncode == 0
        assert "Accepted publickey" in (jump.folder / "sshd.log").read_text()
        remote.close()
        sshd.make_key(tmp_path / "other")
        lines = inner.known_hosts.read_text().splitlines()
        inner.known_hosts.write_text(lines[0] + "\n")
        sshd.trust(inner.known_hosts, jump.address, jump.port, tmp_path / "other.pub")
        error = failure(reach(inner, proxy_jump=through))
        assert "CHANGED" in error.what
        assert f":{jump.port}" in error.what


def test_proxy_jump_none_overrides_the_configuration(server: sshd.Sshd) -> None:
    with Path(server.ssh_config).open("a") as file:
        file.write("  ProxyJump nowhere.invalid\n")
    assert reach(server, proxy_jump="none").run(("true",)).returncode == 0


def test_a_proxy_command_is_run_with_its_tokens(server: sshd.Sshd, tmp_path: Path) -> None:
    script = tmp_path / "relay.py"
    script.write_text(RELAY)
    with Path(server.ssh_config).open("a") as file:
        file.write(f"  ProxyCommand {sys.executable} {script} %h %p\n")
    remote = reach(server)
    assert remote.run(("cat",), stdin=b"x" * 300_000).stdout == b"x" * 300_000
    remote.close()


RELAY = """
import os, socket, sys, threading
line = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def up():
    while data := os.read(0, 65536):
        line.sendall(data)
    line.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while data := line.recv(65536):
    os.write(1, data)
"""


def test_ipv6_with_a_port(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 loopback here")
    with sshd.running(tmp_path, address="::1") as server:
        assert reach(server).run(("true",)).returncode == 0
        server.known_hosts.unlink()
        assert f"[::1]:{server.port}" in failure(reach(server)).what


def test_a_host_that_looks_like_an_option_is_none(server: sshd.Sshd) -> None:
    error = failure(reach(server, address="-oProxyCommand=touch /tmp/oops"))
    assert isinstance(error, OeactlError)
    assert not Path("/tmp/oops").exists()


def test_a_missing_ssh_configuration_is_a_usage_error(server: sshd.Sshd) -> None:
    assert isinstance(failure(reach(server, ssh_config="/no/such/file")), UsageError)


# --- the connection breaks --------------------------------------------------------------------------------


def sleeping(begun: Path) -> tuple[str, ...]:
    """A long command that tells when it has begun."""
    return ("sh", "-c", f"touch {begun}; exec sleep 60")


@contextmanager
def meanwhile(server: sshd.Sshd, begun: Path, number: int) -> Iterator[None]:
    """Signal the processes of the connections when the command on one of them has begun."""

    def send() -> None:
        until(begun.exists)
        server.signal_children(number)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    thread.join()


def test_a_killed_server_process_leaves_the_outcome_unknown_and_the_next_command_connects_anew(
    server: sshd.Sshd, tmp_path: Path
) -> None:
    remote = reach(server)
    assert remote.run(("true",)).returncode == 0
    with meanwhile(server, tmp_path / "begun", signal.SIGKILL), pytest.raises(ConnectionLost):
        remote.run(sleeping(tmp_path / "begun"))
    assert remote.run(("true",)).returncode == 0
    remote.close()


def test_a_connection_that_ended_is_not_taken_for_a_signal_to_the_command(
    server: sshd.Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """paramiko closes the channels of a connection that ended before it says so: here a while before."""
    closed = paramiko.Channel._unlink

    def dawdling(channel: paramiko.Channel) -> None:
        closed(channel)
        time.sleep(0.2)

    monkeypatch.setattr(paramiko.Channel, "_unlink", dawdling)
    monkeypatch.setattr(ssh_remote, "TICK_S", 60.0)
    remote = reach(server)
    with meanwhile(server, tmp_path / "begun", signal.SIGKILL), pytest.raises(ConnectionLost):
        remote.run(sleeping(tmp_path / "begun"))
    remote.close()


def test_a_frozen_server_is_noticed_within_a_bound(server: sshd.Sshd, tmp_path: Path) -> None:
    remote = reach(server, dead_after_s=4.0)
    assert remote.run(("true",)).returncode == 0
    begun = time.monotonic()
    with meanwhile(server, tmp_path / "begun", signal.SIGSTOP), pytest.raises(ConnectionLost):
        remote.run(sleeping(tmp_path / "begun"))
    assert time.monotonic() - begun < 40.0
    remote.close()


def test_a_connection_that_broke_under_a_stream_does_not_break_the_next_question_to_a_kept_agent(
    server: sshd.Sshd, tmp_path: Path
) -> None:
    link = AgentLink(reach(server), python=sys.executable, keep=True)
    asked = {"root": str(tmp_path), "state_dir": str(tmp_path / "state")}
    link.ask("journal", **asked)
    with (
        pytest.raises(ConnectionLost),
        link.watch("server.follow", log=str(tmp_path / "log"), count=1) as events,
    ):
        next(events)
        server.signal_children(signal.SIGKILL)
        next(events)
    assert link.ask("journal", **asked)
    link.close()


def test_a_stream_over_a_broken_connection_says_so(server: sshd.Sshd) -> None:
    remote = reach(server)
    with remote.stream(("sh", "-c", "echo one; sleep 30")) as lines:
        assert next(lines) == b"one\n"
        server.signal_children(signal.SIGKILL)
        with pytest.raises(ConnectionLost):
            next(lines)
    remote.close()


# --- the host's shell -------------------------------------------------------------------------------------


def test_what_rc_files_print_is_in_no_answer(server: sshd.Sshd) -> None:
    (server.home / ".bashrc").write_text("echo welcome to the lab\necho to stderr >&2\n")
    remote = reach(server)
    assert remote.run(("sh", "-c", "printf x")).stdout == b"x"
    with remote.stream(("echo", "line")) as lines:
        assert list(lines) == [b"line\n"]
    found = AgentLink(remote, python=sys.executable).ask("journal", root=str(server.home), state_dir=None)
    assert found["layers"] == []
    remote.close()


def test_no_python_on_the_host_is_a_usage_error_that_names_the_key(server: sshd.Sshd) -> None:
    remote = reach(server)
    with pytest.raises(UsageError) as caught:
        AgentLink(remote, python="/no/python3").ask("journal", root="/", state_dir=None)
    assert "/no/python3" in caught.value.what
    assert "hosts.lab.engine.python" in str(caught.value.hint)
    with pytest.raises(UsageError), AgentLink(remote, python="/no/python3").watch("journal") as events:
        next(events)
    remote.close()


def test_the_fingerprint_is_the_one_openssh_shows(server: sshd.Sshd) -> None:
    import base64

    key = base64.b64decode((server.folder / "host_ed25519.pub").read_text().split()[1])
    assert fingerprint(key) == host_fingerprint(server)
