"""What the link says when the host's agent refuses, fails or cannot even start."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from oeactl.edges.agent_link import AgentLink
from oeactl.edges.local import open_local
from oeactl.errors import ConnectionLost, OeactlError, Refused, Unreachable, UsageError
from oeactl.ports import Completed, Dialogue


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
    ("text", "hint"),
    [
        (b"sudo: a password is required\n", "NOPASSWD"),
        (b"sudo: a terminal is required to read the password\n", "NOPASSWD"),
        (b"ann is not in the sudoers file.\n", "sudoers"),
        (b"Sorry, user ann is not allowed to execute '/opt/python' as root on lab.\n", "sudoers"),
        (b"sh: 1: sudo: not found\n", "drop become: sudo"),
    ],
)
def test_a_sudo_that_refuses_is_a_matter_of_authentication(text: bytes, hint: str) -> None:
    error = silence(become="sudo", returncode=1, stderr=text)
    assert isinstance(error, Unreachable)
    assert not isinstance(error, ConnectionLost)
    assert hint in str(error.hint)


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


# --- one program, asked in turns ---------------------------------------------------------------------------


class Counting:
    """This machine, counting the programs begun, with the last one's dialogue at hand."""

    def __init__(self, grace_s: float) -> None:
        self._inner = open_local("here", grace_s=grace_s)
        self.name = self._inner.name
        self.begun = 0

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0) -> Completed:
        self.begun += 1
        return self._inner.run(argv, stdin=stdin, timeout_s=timeout_s)

    def stream(self, argv: Sequence[str], *, stdin: bytes = b"") -> AbstractContextManager[Iterator[bytes]]:
        self.begun += 1
        return self._inner.stream(argv, stdin=stdin)

    def converse(self, argv: Sequence[str]) -> Dialogue:
        self.begun += 1
        self.last = self._inner.converse(argv)
        return self.last

    def forward(self, port: int) -> AbstractContextManager[int]:
        return self._inner.forward(port)

    def get(self, path: str) -> bytes:
        return self._inner.get(path)

    def close(self) -> None:
        self._inner.close()


@pytest.fixture
def counting(request: pytest.FixtureRequest) -> Counting:
    """Its parameter: how long a program has to end by itself."""
    return Counting(getattr(request, "param", 60.0))


@pytest.fixture
def kept(counting: Counting) -> Iterator[AgentLink]:
    link = AgentLink(counting, python=sys.executable, keep=True)
    yield link
    link.close()


def journal(link: AgentLink, root: Path) -> object:
    return link.ask("journal", root=str(root), state_dir=str(root / "state"))


def test_one_program_answers_every_question_also_after_a_refusal(
    kept: AgentLink, counting: Counting, tmp_path: Path
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "journal.json").write_text('{"schema": 99}')
    assert journal(kept, tmp_path) == journal(kept, tmp_path)
    with pytest.raises(Refused):
        kept.ask("journal", root=str(tmp_path), state_dir=str(tmp_path / "bad"))
    journal(kept, tmp_path)
    assert counting.begun == 1


def test_a_program_that_was_killed_leaves_the_outcome_unknown_and_the_next_question_gets_a_fresh_one(
    kept: AgentLink, counting: Counting, tmp_path: Path
) -> None:
    journal(kept, tmp_path)
    with pytest.raises(ConnectionLost):
        kept.ask("lease", **lease(tmp_path), fault={"at": 0, "do": "kill"})
    journal(kept, tmp_path)
    assert counting.begun == 2


def test_a_program_that_ended_between_two_questions_loses_none(
    kept: AgentLink, counting: Counting, tmp_path: Path
) -> None:
    journal(kept, tmp_path)
    counting.last.end(at_once=True)
    journal(kept, tmp_path)
    assert counting.begun == 2


def lease(root: Path) -> dict[str, object]:
    return {
        "root": str(root),
        "state_dir": str(root / "state"),
        "operation": "one",
        "what": "a test",
        "holder": {"user": "ann", "host": "here", "pid": 1},
        "lease_s": 60.0,
    }


@pytest.mark.parametrize("counting", [0.5], indirect=True)
def test_a_program_that_hangs_is_ended_at_its_time(
    kept: AgentLink, counting: Counting, tmp_path: Path
) -> None:
    journal(kept, tmp_path)
    with pytest.raises(ConnectionLost):
        kept.ask("lease", timeout_s=3.0, **lease(tmp_path), fault={"at": 0, "do": "freeze"})
    assert counting.last.end().returncode is None
    journal(kept, tmp_path)


def test_whoever_asks_meanwhile_gets_a_program_of_their_own(
    kept: AgentLink, counting: Counting, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    fault = {"at": 0, "do": "pause", "gate": str(gate)}
    slow = threading.Thread(target=lambda: kept.ask("lease", **lease(tmp_path), fault=fault))
    slow.start()
    while not gate.exists():
        time.sleep(0.01)
    journal(kept, tmp_path / "elsewhere")
    gate.unlink()
    slow.join()
    assert counting.begun == 2


def test_a_kept_program_is_gone_after_close(kept: AgentLink, counting: Counting, tmp_path: Path) -> None:
    journal(kept, tmp_path)
    kept.close()
    assert counting.last.end().returncode == 0
