"""What every Remote must do: the same cases over this machine and over a real sshd."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from oeactl.edges.local import open_local
from oeactl.edges.ssh import open_ssh
from oeactl.errors import ConnectionLost, Refused
from oeactl.ports import Remote
from tests.support import sshd

MEBIBYTE = bytes(range(256)) * 4096


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Sshd]:
    with sshd.running(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.sshd)])
def remote(request: pytest.FixtureRequest) -> Iterator[Remote]:
    """hasty: this machine, where a command has hardly any time to end by itself."""
    if request.param != "ssh":
        remote = open_local(grace_s=0.5 if request.param == "hasty" else 60.0)
    else:
        server = request.getfixturevalue("server")
        remote = open_ssh(name="lab", address=server.address, port=server.port, ssh_config=server.ssh_config)
    yield remote
    remote.close()


def alive(pid: int) -> bool:
    """Running, and not a zombie that only waits for its parent."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def gone_within(pid: int, seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < limit:
        time.sleep(0.02)
    return not alive(pid)


def test_a_command_gives_its_exit_code_stdout_and_stderr_apart(remote: Remote) -> None:
    done = remote.run(("sh", "-c", "printf out; printf err >&2; exit 7"))
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out", b"err")


def test_megabytes_of_every_byte_pass_both_ways_while_stderr_fills(remote: Remote) -> None:
    done = remote.run(("sh", "-c", "head -c 3000000 /dev/zero >&2; cat"), stdin=3 * MEBIBYTE)
    assert done.stdout == 3 * MEBIBYTE
    assert done.stderr == bytes(3000000)


def test_a_command_that_does_not_read_its_stdin_still_ends_well(remote: Remote) -> None:
    assert remote.run(("true",), stdin=8 * MEBIBYTE).returncode == 0


@pytest.mark.parametrize(
    "word",
    ["", " ", "a b", "'", '"', "$(id)", "`id`", "$HOME", "*", ";id", "-n", "--", "a\nb", "\\", "!!", "é"],
)
def test_every_word_arrives_as_it_was_written(remote: Remote, word: str) -> None:
    done = remote.run(("printf", "%s|", word, "end"))
    assert done.stdout == f"{word}|end|".encode()


def test_a_missing_program_is_127_and_named(remote: Remote) -> None:
    done = remote.run(("no-such-program-here",))
    assert done.returncode == 127
    assert b"no-such-program-here" in done.stderr


def test_a_command_ended_by_a_signal_has_no_exit_code(remote: Remote) -> None:
    assert remote.run(("sh", "-c", "kill -KILL $$")).returncode is None


def test_a_command_that_takes_too_long_is_unknown_and_ended(remote: Remote, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    begun = time.monotonic()
    with pytest.raises(ConnectionLost):
        remote.run(("sh", "-c", f"echo $$ >{pid}; exec sleep 60"), timeout_s=3.0)
    assert time.monotonic() - begun < 40.0
    assert gone_within(int(pid.read_text()), 40.0)


def test_lines_arrive_while_the_command_runs(remote: Remote, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"echo first; while [ ! -e {gate} ]; do sleep 0.02; done; printf 'second\nlast'"
    with remote.stream(("sh", "-c", script)) as lines:
        assert next(lines) == b"first\n"
        gate.touch()
        assert list(lines) == [b"second\n", b"last"]


def test_a_stream_is_fed_and_its_stderr_blocks_nothing(remote: Remote) -> None:
    with remote.stream(("sh", "-c", "head -c 3000000 /dev/zero >&2; wc -c"), stdin=MEBIBYTE) as lines:
        assert b"".join(lines).strip() == str(len(MEBIBYTE)).encode()


def test_a_command_is_talked_to_in_turns(remote: Remote) -> None:
    talk = remote.converse(("sh", "-c", "while read -r line; do echo got $line; done; echo over >&2; exit 3"))
    for word in (b"one", b"two"):
        talk.say(word + b"\n")
        assert talk.hear(60.0) == b"got " + word + b"\n"
    done = talk.end()
    assert (done.returncode, done.stderr) == (3, b"over\n")


def test_a_command_that_leaves_a_talk_is_heard_to_its_end(remote: Remote) -> None:
    talk = remote.converse(("sh", "-c", "printf last; kill -KILL $$"))
    heard = b""
    while data := talk.hear(60.0):
        heard += data
    talk.say(b"anybody there?")
    assert heard == b"last"
    assert talk.end().returncode is None


def test_a_command_that_says_nothing_is_given_up_and_ended(remote: Remote) -> None:
    talk = remote.converse(("sh", "-c", "echo $$; exec sleep 60"))
    pid = int(talk.hear(60.0))
    with pytest.raises(ConnectionLost):
        talk.hear(0.5)
    talk.end(at_once=True)
    assert gone_within(pid, 40.0)


def test_a_program_that_is_not_there_ends_a_talk_with_127(remote: Remote) -> None:
    talk = remote.converse(("no-such-program-here",))
    assert talk.hear(60.0) == b""
    done = talk.end()
    assert done.returncode == 127
    assert b"no-such-program-here" in done.stderr


def test_leaving_a_stream_ends_the_remote_process_and_its_children(remote: Remote) -> None:
    with remote.stream(("sh", "-c", "sleep 60 & echo $! $$; wait")) as lines:
        child, shell = (int(word) for word in next(lines).split())
        assert alive(child)
        assert alive(shell)
    assert gone_within(shell, 40.0)
    assert gone_within(child, 40.0)


@pytest.mark.parametrize("remote", ["hasty", pytest.param("ssh", marks=pytest.mark.sshd)], indirect=True)
def test_leaving_a_stream_ends_even_a_process_that_ignores_terms(remote: Remote) -> None:
    with remote.stream(("sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.1; done")) as lines:
        pid = int(next(lines))
    assert gone_within(pid, 40.0)


def test_commands_run_side_by_side(remote: Remote) -> None:
    results: list[bytes] = []

    def work(number: int) -> None:
        results.append(remote.run(("sh", "-c", f"sleep 0.2; echo {number}")).stdout)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [b"%d\n" % number for number in range(6)]


def test_a_file_comes_whole(remote: Remote, tmp_path: Path) -> None:
    file = tmp_path / "-a file 'with' $names"
    file.write_bytes(MEBIBYTE)
    assert remote.get(str(file)) == MEBIBYTE


def test_a_file_that_is_not_there_is_refused_by_name(remote: Remote, tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        remote.get(str(tmp_path / "missing"))
    assert str(caught.value.where).endswith(f"{tmp_path}/missing")
    assert "No such file" in caught.value.what


def test_a_forwarded_port_reaches_the_hosts_loopback_in_both_directions(remote: Remote) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def echo() -> None:
        for _ in range(2):
            client, _ = listener.accept()
            with client:
                received = b""
                while data := client.recv(65536):
                    received += data
                client.sendall(received)

    thread = threading.Thread(target=echo)
    thread.start()
    with listener, remote.forward(listener.getsockname()[1]) as port:
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), 60.0) as client:
                sender = threading.Thread(target=client.sendall, args=(MEBIBYTE,))
                sender.start()
                sender.join()
                client.shutdown(socket.SHUT_WR)
                received = b""
                while data := client.recv(65536):
                    received += data
            assert received == MEBIBYTE
        thread.join()


def test_closing_leaves_no_process_behind(remote: Remote) -> None:
    shell = int(remote.run(("sh", "-c", "echo $$")).stdout)
    remote.close()
    assert gone_within(shell, 40.0)
    assert remote.run(("true",)).returncode == 0, "a closed remote opens anew"
