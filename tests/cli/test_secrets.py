"""Sentinels planted wherever a secret may lie: nothing written, printed, or listed as a process shows one.

And values made to run something, wherever a value may stand: nothing runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from oeactl.cli.app import main
from tests.support import sshd
from tests.support.fleet import Fleet, make_fleet
from tests.support.serving import STANDIN, free_port

pytestmark = pytest.mark.sshd

KEY = "sk-SENTINEL-api-key"
TOKEN = "hf_SENTINELtoken"
SUDO = "SENTINEL sudo password"
IN_THE_LOG = ("SENTINEL-log-1", "SENTINEL-log-2", "SENTINEL-log-3", "sk-in-the-log", "hf_1234567")
ALL = (KEY, TOKEN, SUDO, *IN_THE_LOG)
LOG = (
    f"server_args=ServerArgs(model_path='/m', api_key='{IN_THE_LOG[0]}')\n"
    f"HF_TOKEN={IN_THE_LOG[1]} launch_server --api-key {IN_THE_LOG[0]}\n"
    f"Authorization: Bearer {IN_THE_LOG[2]}\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Sshd]:
    with sshd.running(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def fleet(server: sshd.Sshd, tmp_path: Path) -> Fleet:
    """One host whose server wants a key, has a token in its environment, and talks too much in its log."""
    port = free_port()
    made = make_fleet(tmp_path, [server], 1)
    spec = {
        "url": f"http://127.0.0.1:{port}",
        "cwd": str(tmp_path),
        "env": {"HF_TOKEN": TOKEN, "PLAIN": "shown"},
        "argv": [str(STANDIN), "--port", str(port), "--api-key", KEY],
        "log": str(tmp_path / "server.log"),
        "api_key_env": "THE_KEY",
        "ready_timeout": "30s",
        "stop_timeout": "5s",
    }
    change(made, server=spec)
    environment = {"THE_KEY": KEY, "OEACTL_SUDO_PASSWORD": SUDO, "HF_TOKEN": TOKEN}
    return Fleet(folder=tmp_path, hosts=made.hosts, environment=environment)


@pytest.fixture
def stopped_in_the_end(fleet: Fleet) -> Iterator[None]:
    yield
    fleet.run("stop", "--host", "h1", "--yes")


def change(fleet: Fleet, **keys: Any) -> None:
    path = fleet.folder / "hosts.yaml"
    document = yaml.safe_load(path.read_text())
    document["hosts"]["h1"] |= keys
    path.write_text(yaml.safe_dump(document))


class Processes:
    """Command lines of every process there was, but for the server's own, which its owner wrote so."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._over = threading.Event()

    def watch(self) -> None:
        while not self._over.wait(0.002):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    line = (process / "cmdline").read_bytes()
                    if STANDIN.name.encode() not in line:
                        self.seen.add(line)

    @contextmanager
    def watched(self) -> Iterator[None]:
        thread = threading.Thread(target=self.watch)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


def found_in(data: bytes) -> list[str]:
    return [secret for secret in ALL if secret.encode() in data]


@pytest.mark.usefixtures("stopped_in_the_end")
def test_no_secret_is_printed_written_or_listed(fleet: Fleet) -> None:
    processes = Processes()
    printed: list[tuple[str, str]] = []

    def oeactl(*words: str, code: int | None = 0, **environment: str) -> None:
        done = Fleet(
            folder=fleet.folder, hosts=fleet.hosts, environment={**fleet.environment, **environment}
        ).run(*words)
        printed.append((" ".join(words), done.stdout + done.stderr))
        assert code is None or done.returncode == code, printed[-1]

    with processes.watched():
        oeactl("hosts")
        oeactl("hosts", "h1", "--json")
        oeactl("start", "--host", "h1", "-v")
        with (fleet.folder / "server.log").open("a") as log:
            log.write(LOG)
        oeactl("logs", "--host", "h1", "-n", "500")
        oeactl("logs", "--host", "h1", "-n", "500", "--json")
        oeactl("status", "--host", "h1", "--json")
        oeactl("patch", "--recipe", "note", "--host", "h1", "--yes", "--debug", "-v")
        oeactl("bench", "--driver", "light", "-c", "1", "--requests", "2", "--host", "h1", code=None)
        oeactl("doctor", "--host", "h1", code=None)
        oeactl("adopt", "--host", "h1", "--dry-run", code=None)
        oeactl("revert", "--host", "h1", "--yes")
        oeactl("status", "--host", "h1", "--debug", THE_KEY="SENTINEL-wrong-key")
        oeactl("stop", "--host", "h1", "--yes")
        oeactl("status", "--host", "nobody", "--debug", code=2)
    assert "server_args=" in printed[3][1], "the log was shown"
    assert any("-I" in line.decode("utf-8", "replace") for line in processes.seen)
    leaks = [
        f"printed by {what}: {found_in(text.encode())}" for what, text in printed if found_in(text.encode())
    ]
    leaks += [f"in {path}: {found_in(data)}" for path, data in kept(fleet) if found_in(data)]
    leaks += [f"listed: {line!r}" for line in processes.seen if found_in(line)]
    assert not leaks, "\n".join(leaks)
    assert any("results" in path.parts for path, _ in kept(fleet)), "the bench was kept"


def kept(fleet: Fleet) -> Iterator[tuple[Path, bytes]]:
    """All that commands wrote: results, record, the host's state; not what the owner and the server wrote."""
    for path in fleet.folder.rglob("*"):
        if path.is_file() and path.name not in ("hosts.yaml", "server.log"):
            yield path.relative_to(fleet.folder), path.read_bytes()


HOSTILE = (
    "$(touch {mark})",
    "`touch {mark}`",
    "; touch {mark} ;",
    "' ; touch {mark} ; '",
    '" ; touch {mark} ; "',
    "x\ntouch {mark}\n",
    "-oProxyCommand=touch {mark}",
    "--version",
    "| touch {mark}",
    "${{IFS}}touch${{IFS}}{mark}",
)


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, fleet: Fleet) -> None:
    """Commands run within this process: there are hundreds of them."""
    for name, value in fleet.env().items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_value_in_hosts_yaml_runs_nothing(
    fleet: Fleet, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In every key of a host that takes text, one after the other; whatever else becomes of the command."""
    mark = fleet.folder / "mark"
    bad = value.format(mark=mark)
    entry = yaml.safe_load((fleet.folder / "hosts.yaml").read_text())["hosts"]["h1"]
    engine, server = entry["engine"], entry["server"]
    entries = [
        *({key: bad} for key in ("address", "user", "identity_file", "proxy_jump", "ssh_config")),
        {"state_dir": f"{fleet.folder}/{bad}"},
        *({"engine": {**engine, key: f"/{bad}"}} for key in ("python", "root")),
        *({"server": {**server, key: f"/{bad}"}} for key in ("cwd", "log")),
        {"server": {**server, "url": f"http://127.0.0.1:1/{bad}"}},
        {"server": {**server, "env": {"A": bad}}},
        {"server": {**server, "argv": ["-m", bad]}},
    ]
    for keys in entries:
        (fleet.folder / "hosts.yaml").write_text(yaml.safe_dump({"hosts": {"h1": {**entry, **keys}}}))
        harmless(fleet, mark, capsys, "status", "--host", "h1")


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_word_on_the_command_line_runs_nothing(
    fleet: Fleet, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = fleet.folder / "mark"
    bad = value.format(mark=mark)
    for words in (
        ("patch", f"--set=k0={bad}", "--host", "h1"),
        ("patch", f"--recipe={bad}", "--host", "h1"),
        ("revert", f"--recipe={bad}", "--host", "h1", "--no-restart"),
        ("status", f"--host={bad}"),
        ("bench", f"--label={bad}", "--host", "h1"),
    ):
        harmless(fleet, mark, capsys, *words)


def harmless(fleet: Fleet, mark: Path, capsys: pytest.CaptureFixture[str], *words: str) -> None:
    code = main([*words, "--project", str(fleet.folder)])
    out, err = capsys.readouterr()
    assert not mark.exists(), (words, out, err)
    assert code != 1, (words, err)
