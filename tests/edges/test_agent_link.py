"""What the link says when the host's agent refuses, fails or cannot even start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from oeactl.edges.agent_link import AgentLink
from oeactl.edges.local import open_local
from oeactl.errors import ConnectionLost, OeactlError, Refused, Unreachable, UsageError
from oeactl.ports import Completed


class Scripted:
    """A Remote that answers every command with the same thing, and remembers what it was given."""

    name = "lab"

    def __init__(self, returncode: int | None = 0, stdout: bytes = b"", stderr: bytes = b"") -> None:
        self._done = Completed(returncode=returncode, stdout=stdout, stderr=stderr)
        self.argv: tuple[str, ...] = ()

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0) -> Completed:
        self.argv = tuple(argv)
        return self._done

    @contextmanager
    def stream(self, argv: Sequence[str], *, stdin: bytes = b"") -> Iterator[Iterator[bytes]]:
        self.argv = tuple(argv)
        yield iter(self._done.stdout.splitlines(keepends=True))

    @contextmanager
    def forward(self, port: int) -> Iterator[int]:
        yield port

    def get(self, path: str) -> bytes:
        return b""

    def close(self) -> None:
        pass


def silence(become: str | None = None, **answer: object) -> OeactlError:
    remote = Scripted(**answer)  # type: ignore[arg-type]
    with pytest.raises(OeactlError) as caught:
        AgentLink(remote, python="/opt/python", become=become).ask("journal")
    assert caught.value.where == "lab"
    return caught.value


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (127, b"sh: 1: exec: /opt/python: not found\n"),
        (127, b"bash: line 1: /opt/python: No such file or directory\n"),
        (126, b"bash: /opt/python: Permission denied\n"),
        (1, b"sudo: /opt/python: command not found\n"),
    ],
)
def test_no_python_is_a_usage_error_that_names_it_and_the_key(code: int, text: bytes) -> None:
    error = silence(returncode=code, stderr=text)
    assert isinstance(error, UsageError)
    assert "/opt/python" in error.what
    assert "hosts.lab.engine.python" in str(error.hint)


def test_an_old_python_is_a_usage_error() -> None:
    error = silence(returncode=1, stderr=b"oeactl: Python 3.8 or newer is needed here\n")
    assert isinstance(error, UsageError)
    assert "older than Python 3.8" in error.what


@pytest.mark.parametrize(
    "text",
    [
        b"sudo: a password is required\n",
        b"sudo: a terminal is required to read the password\n",
        b"ann is not in the sudoers file.\n",
        b"Sorry, user ann is not allowed to execute '/opt/python' as root on lab.\n",
    ],
)
def test_a_sudo_that_wants_a_password_is_a_matter_of_authentication(text: bytes) -> None:
    error = silence(become="sudo", returncode=1, stderr=text)
    assert isinstance(error, Unreachable)
    assert not isinstance(error, ConnectionLost)
    assert "NOPASSWD" in str(error.hint)


@pytest.mark.parametrize("code", [None, 143])
def test_an_agent_that_was_ended_leaves_the_outcome_unknown(code: int | None) -> None:
    error = silence(returncode=code)
    assert isinstance(error, ConnectionLost)
    assert "unknown" in error.what


def test_a_crashing_agent_shows_its_last_words() -> None:
    error = silence(returncode=1, stderr=b"Traceback (most recent call last):\nKeyError: 'not found'\n")
    assert type(error) is OeactlError
    assert error.details[-1] == "KeyError: 'not found'"


def test_sudo_is_words_in_front_that_never_ask() -> None:
    remote = Scripted(returncode=None)
    with pytest.raises(ConnectionLost):
        AgentLink(remote, python="/opt/python", become="sudo").ask("journal")
    assert remote.argv[:4] == ("sudo", "-n", "--", "/opt/python")


def test_become_is_sudo_or_nothing() -> None:
    with pytest.raises(UsageError):
        AgentLink(Scripted(), become="doas")


def test_a_refusal_keeps_its_class_and_says_host_and_path(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "journal.json").write_text('{"schema": 99}')
    link = AgentLink(open_local("here"))
    with pytest.raises(Refused) as caught:
        link.ask("journal", root=str(tmp_path), state_dir=str(tmp_path / "state"))
    assert caught.value.where == f"here:{tmp_path}/state/journal.json"


def test_a_watch_that_ends_without_an_answer_shows_the_noise() -> None:
    remote = Scripted(stdout=b"motd\nTraceback (most recent call last):\nZeroDivisionError\n")
    with AgentLink(remote).watch("journal") as events, pytest.raises(OeactlError) as caught:
        next(events)
    assert caught.value.details[-1] == "ZeroDivisionError"
