"""A real sudo and a throw-away user: with and without a password, other users' files, clear refusals.

All in a mount namespace of its own, where /etc/passwd, shadow and sudoers are copies with that user in them.
"""

from __future__ import annotations

import io
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from oeactl.edges.agent_link import AgentLink
from oeactl.edges.files import _fields
from oeactl.edges.local import open_local
from oeactl.edges.sudo import VARIABLE, Sudo
from oeactl.edges.terminal import Secret
from oeactl.errors import OeactlError, Refused, Unreachable, UsageError
from tests.agent.test_ownership import Prefixed
from tests.support.engine_tree import ORIGINAL, PATCHED, Tree, make_tree

PYTHON = "/usr/bin/python3"
USER, UID, OWNER = "oeactl-try", 54321, 12345
PASSWORD = r"S3ntinel \n $(id) 'x' \"y\" !%"
ENTER = """
mount --bind {folder}/passwd /etc/passwd && mount --bind {folder}/shadow /etc/shadow &&
mount --bind {folder}/sudoers /etc/sudoers && mount -t tmpfs none /run &&
exec setpriv --reuid={uid} --regid={uid} --clear-groups "$@"
"""

needs_sudo = pytest.mark.skipif(
    os.geteuid() != 0
    or not Path(PYTHON).exists()
    or any(shutil.which(tool) is None for tool in ("sudo", "setpriv", "unshare", "openssl")),
    reason="needs root, sudo, setpriv, unshare, openssl and a system Python",
)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="oeactl-sudo-") as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.fixture
def tree(folder: Path) -> Tree:
    """An engine of somebody who is neither root nor the user who connects."""
    made = make_tree(folder, PYTHON)
    for path in (made.site.parent, made.site, *made.site.rglob("*")):
        os.chown(path, OWNER, OWNER)
    return made


def enter(folder: Path, rule: str) -> Prefixed:
    """This machine as the throw-away user, whom sudoers gives ``rule``."""
    hashed = subprocess.run(
        ["openssl", "passwd", "-6", "-stdin"], input=PASSWORD, capture_output=True, text=True, check=True
    ).stdout.strip()
    lines = {
        "passwd": f"{USER}:x:{UID}:{UID}::/:/bin/sh\n",
        "shadow": f"{USER}:{hashed}:19000:0:99999:7:::\n",
    }
    for name, line in lines.items():
        (folder / name).write_text(Path(f"/etc/{name}").read_text() + line)
    (folder / "shadow").chmod(0o640)
    (folder / "sudoers").write_text(f"Defaults env_reset\nroot ALL=(ALL) ALL\n{rule}\n")
    (folder / "sudoers").chmod(0o440)
    script = ENTER.format(folder=folder, uid=UID)
    return Prefixed(open_local(), "unshare", "-m", "sh", "-c", script, "sh")


def through(
    tree: Tree, folder: Path, rule: str, password: Callable[[str], str] | None = None, *, keep: bool = False
) -> Tree:
    remote = enter(folder, rule)
    link = AgentLink(remote, python=PYTHON, become="sudo", password=password, keep=keep)
    return replace(tree, link=link)


def there_and_back(tree: Tree) -> None:
    owners = {path: path.stat().st_uid for path in tree.site.rglob("*")}
    tree.files.write(tree.transaction(probe=tree.probe()))
    assert tree.contents() == PATCHED
    assert {path: path.stat().st_uid for path in owners} == owners, "the files stay their owner's"
    tree.files.write(tree.transaction("revert"))
    assert tree.contents() == ORIGINAL
    assert not tree.state.exists()


@needs_sudo
def test_without_sudo_another_users_files_are_refused(tree: Tree, folder: Path) -> None:
    folder.chmod(0o777)
    remote = enter(folder, "")
    tree = replace(tree, link=AgentLink(remote, python=PYTHON))
    with pytest.raises(Refused) as caught:
        tree.files.write(tree.transaction())
    assert "only the owner may patch" in caught.value.what
    assert "become: sudo" in str(caught.value.hint)


@needs_sudo
def test_sudo_without_a_password(tree: Tree, folder: Path) -> None:
    there_and_back(through(tree, folder, f"{USER} ALL=(ALL) NOPASSWD: ALL"))


@needs_sudo
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("defaults", ["", "Defaults timestamp_timeout=0"])
def test_sudo_with_a_password_that_is_asked_for_once(
    tree: Tree, folder: Path, defaults: str, keep: bool
) -> None:
    asked: list[str] = []

    def password(host: str) -> str:
        asked.append(host)
        return PASSWORD

    tree = through(tree, folder, f"{defaults}\n{USER} ALL=(ALL) ALL", password, keep=keep)
    there_and_back(tree)
    with tree.link.watch("journal", root=tree.root, state_dir=str(tree.state)) as events:
        (answer,) = events
    assert answer["value"]["layers"] == []
    assert asked == ["@local"]
    tree.link.close()


@needs_sudo
def test_a_watch_comes_first_and_asks_too(tree: Tree, folder: Path) -> None:
    tree = through(tree, folder, f"{USER} ALL=(ALL) ALL", lambda host: PASSWORD)
    with tree.link.watch("journal", root=tree.root, state_dir=str(tree.state)) as events:
        (answer,) = events
    assert answer["value"]["layers"] == []


@needs_sudo
@pytest.mark.parametrize(
    ("rule", "password", "what", "hint"),
    [
        (f"{USER} ALL=(ALL) ALL", "wrong", "did not take the password", VARIABLE),
        (f"{USER} ALL=(ALL) ALL", None, "without a password", "NOPASSWD"),
        ("", PASSWORD, "does not allow it", "sudoers"),
        (f"{USER} ALL=(ALL) NOPASSWD: /bin/ls", PASSWORD, "does not allow it", "sudoers"),
    ],
)
def test_a_sudo_that_refuses_is_said_in_words(
    tree: Tree, folder: Path, rule: str, password: str | None, what: str, hint: str
) -> None:
    ask = None if password is None else lambda host: str(password)
    tree = through(tree, folder, rule, ask)
    with pytest.raises(Unreachable) as caught:
        tree.files.write(tree.transaction())
    error = caught.value
    assert error.exit_code == 4
    assert what in error.what
    assert hint in str(error.hint)
    assert PASSWORD not in everything(error)
    assert tree.contents() == ORIGINAL


def everything(error: OeactlError) -> str:
    return "\n".join([error.what, str(error.where), str(error.hint), *error.details])


@needs_sudo
def test_the_password_is_in_no_command_line_and_no_environment(tree: Tree, folder: Path) -> None:
    gate = folder / "gate"
    tree = through(tree, folder, f"{USER} ALL=(ALL) ALL", lambda host: PASSWORD)
    fault = {"at": 0, "do": "pause", "gate": str(gate)}
    thread = threading.Thread(
        target=lambda: tree.link.ask("write", **_fields(tree.transaction()), fault=fault)
    )
    thread.start()
    while not gate.exists():
        time.sleep(0.01)
    seen = [found for path in Path("/proc").glob("[0-9]*") for found in shown(path)]
    gate.unlink()
    thread.join()
    assert any(b"hashlib" in text for text in seen), "the agent's own command line was among them"
    assert not any(PASSWORD.encode() in text for text in seen)


def shown(process: Path) -> Iterator[bytes]:
    for name in ("cmdline", "environ"):
        try:
            yield (process / name).read_bytes()
        except OSError:
            continue


# --- asking ------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def asking(
    answers: io.StringIO | None, *, environ: Mapping[str, str] | None = None, each: bool = False
) -> Secret:
    return Secret(
        variable=VARIABLE,
        question="?",
        environ=environ or {},
        answers=answers,
        stream=Terminal(),
        pause=lambda: None,
        each=each,
    )


def test_the_variable_is_taken_before_anybody_is_asked() -> None:
    assert asking(None, environ={VARIABLE: "x"})("h1") == "x"


@pytest.mark.parametrize("answers", [None, io.StringIO()])
def test_nobody_at_a_terminal_is_a_usage_error_that_names_the_variable(answers: io.StringIO | None) -> None:
    with pytest.raises(UsageError) as caught:
        Sudo("h1", asking(answers)).learn()
    assert VARIABLE in str(caught.value.hint)


ASK = """
import os, sys
from oeactl.edges.terminal import Secret
os.close(os.open(os.ttyname(0), os.O_RDWR))  # of a session without one, it is now the terminal
secret = Secret(variable="V", question="word for", environ={{}}, answers=sys.stdin, stream=sys.stderr,
                pause=lambda: None, each={each})
print([secret(name) for name in ("h1", "h2", "h1")])
"""


@pytest.mark.parametrize(
    ("each", "typed", "given"), [(False, ["one"], ["one"] * 3), (True, ["one", "two"], ["one", "two", "one"])]
)
def test_a_person_is_asked_once_for_all_or_once_for_each(
    each: bool, typed: list[str], given: list[str]
) -> None:
    terminal, theirs = pty.openpty()  # to fork in a process of several threads is warned of from 3.12 on
    program = subprocess.Popen(
        [sys.executable, "-c", ASK.format(each=each)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown, answers = b"", iter(typed)
    with suppress(OSError):  # the terminal's end, once its last process is gone
        while more := os.read(terminal, 4096):
            shown += more
            if shown.endswith(b": "):
                os.write(terminal, next(answers).encode() + b"\n")
    program.wait()
    os.close(terminal)
    assert str(given) in shown.decode()
    assert shown.count(b"word for h1") == 1
