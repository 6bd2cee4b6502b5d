"""A real OpenSSH server of our own on loopback: throw-away keys, a hermetic home, its own ssh_config.

Owns: starting it, stopping or killing exactly its own processes. Refuses: to touch a system service.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:" + os.environ.get("PATH", ""))
START_S = 60.0
PORTS = 5

CONFIG = """\
ListenAddress {address}
Port {port}
HostKey {folder}/host_ed25519
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
SetEnv HOME={home}
{extra}
"""

CLIENT_CONFIG = """\
Host *
  User {user}
  IdentityFile {folder}/client_ed25519
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile none
"""


@dataclass(frozen=True, kw_only=True)
class Sshd:
    """folder holds keys, known_hosts and both configurations; home is $HOME of everything run there."""

    folder: Path
    home: Path
    address: str
    port: int
    process: subprocess.Popen[bytes]

    @property
    def ssh_config(self) -> str:
        return str(self.folder / "ssh_config")

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def identity_file(self) -> str:
        return str(self.folder / "client_ed25519")

    def children(self) -> tuple[int, ...]:
        """The sshd processes that serve our connections, the deepest (unprivileged) ones last."""
        return tuple(pid for pid in _descendants(self.process.pid) if _is_sshd(pid))

    def commands(self) -> tuple[int, ...]:
        """What was begun over our connections and runs."""
        return tuple(pid for pid in _descendants(self.process.pid) if not _is_sshd(pid))

    def signal_children(self, number: int) -> None:
        for pid in reversed(self.children()):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    layer = [pid]
    while layer:
        layer = [child for parent in layer for child in _children(parent)]
        found.extend(layer)
    return found


def _children(pid: int) -> list[int]:
    with suppress(FileNotFoundError, ProcessLookupError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _is_sshd(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/comm").read_text().startswith("sshd")
    return False


def make_key(path: Path, *, kind: str = "ed25519", passphrase: str = "") -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)], check=True
    )


def trust(known_hosts: Path, address: str, port: int, public_key: Path) -> None:
    """Write the one line that makes a host key known."""
    kind, key, *_ = public_key.read_text().split()
    with known_hosts.open("a") as file:
        file.write(f"[{address}]:{port} {kind} {key}\n")


@contextmanager
def running(
    folder: Path, *, address: str = "127.0.0.1", extra: Sequence[str] = (), port: int | None = None
) -> Iterator[Sshd]:
    """Start it, yield when it listens, end it with every process it left. Skips where there is no sshd."""
    if SSHD is None:
        pytest.skip("no sshd is installed here")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # its privilege separation wants the folder
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    fresh = not (folder / "host_ed25519").exists()
    if fresh:
        make_key(folder / "host_ed25519")
        make_key(folder / "client_ed25519")
        shutil.copy(folder / "client_ed25519.pub", folder / "authorized_keys")
    user = subprocess.run(["id", "-un"], check=True, capture_output=True, text=True).stdout.strip()
    (folder / "ssh_config").write_text(CLIENT_CONFIG.format(folder=folder, user=user))
    server = _started(folder, home, address, port, "\n".join(extra))
    if fresh:
        trust(folder / "known_hosts", address, server.port, folder / "host_ed25519.pub")
    try:
        yield server
    finally:
        left, process = server.children(), server.process
        for pid in (*left, process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL if pid != process.pid else signal.SIGTERM)
        process.wait(60)


def _free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def _started(folder: Path, home: Path, address: str, port: int | None, extra: str) -> Sshd:
    """Begin it where nobody else listens: another test may take a port before it is used."""
    assert SSHD is not None
    config, log = folder / "sshd_config", folder / "sshd.log"
    for _ in range(1 if port else PORTS):
        chosen = port or _free_port(address)
        config.write_text(CONFIG.format(address=address, port=chosen, folder=folder, home=home, extra=extra))
        before = len(log.read_bytes()) if log.exists() else 0
        process = subprocess.Popen([SSHD, "-D", "-E", str(log), "-f", str(config)])
        if _listens(process, log, before):
            return Sshd(folder=folder, home=home, address=address, port=chosen, process=process)
        process.kill()
        process.wait(10)
    raise RuntimeError(f"sshd did not start: {log.read_text()}")


def _listens(process: subprocess.Popen[bytes], log: Path, before: int) -> bool:
    """Whether it says so, from ``before`` on in its log: a port that answers may be another's."""
    limit = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < limit:
        if log.exists() and b"Server listening on" in log.read_bytes()[before:]:
            return True
        time.sleep(0.02)
    return False
