"""What this host remembers of the server that was started here: server.json in the state folder, mode 0600.

Owns: that file and the place of the proofs. Refuses: secrets (of the environment only names are kept, of
the launch a hash).
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from . import process
from .journal import state_path

if TYPE_CHECKING:
    from .process import Key
    from .wire import Request

MARK = (
    "OEACTL_SERVER"  # a random value in the server's environment: its family is known by it wherever it goes
)
PROOF_DIR = "OEACTL_PROOF_DIR"


class Record(NamedTuple):
    """One start. log_begin: where its lines begin in the log. family: everything seen of it so far.

    pid 0: something was begun at ``ticks`` and is known by its mark alone so far. workers: pid, ticks and
    role of each worker that there was when it was ready.
    """

    pid: int
    ticks: int
    boot_id: str
    url: str
    log: str
    log_begin: int
    started_at: float
    launch_sha256: str
    env_names: list[str]
    mark: str
    family: list[list[int]]
    workers: list[tuple[int, int, str]] = []  # noqa: RUF012  # never changed in place

    @property
    def key(self) -> Key:
        return (self.pid, self.ticks)

    @property
    def of_this_boot(self) -> bool:
        return self.boot_id == process.boot_id()

    def members(self) -> process.Family:
        """The family as far as this boot knows it; nobody after a reboot."""
        if not self.of_this_boot:
            return process.Family(None)
        known = [(pid, ticks) for pid, ticks in self.family]
        return process.Family(self.key if self.pid else None, known, f"{MARK}={self.mark}")


def state_dir(request: Request) -> str:
    """The folder of this engine root's state, beside its journal."""
    return state_path(request["root"], request.get("state_dir"))


def proof_dir(folder: str) -> str:
    return os.path.join(folder, "proof")


def lost(last: Record | None) -> list[dict[str, object]]:
    """The wire's Process of the leader and of each worker of a ready server that ended since, not by us."""
    if last is None or not last.of_this_boot or not last.pid:
        return []
    known = [(last.pid, last.ticks, ""), *((pid, ticks, role) for pid, ticks, role in last.workers)]
    return [
        {"pid": pid, "start_ticks": ticks, "boot_id": last.boot_id, "title": "", "role": role}
        for pid, ticks, role in known
        if not process.alive((pid, ticks))
    ]


def _path(folder: str) -> str:
    return os.path.join(folder, "server.json")


def read(folder: str) -> Record | None:
    """The last start, None where there is none or it cannot be understood."""
    try:
        with open(_path(folder), encoding="utf-8") as file:
            return Record(**json.load(file))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def write(folder: str, record: Record) -> None:
    temporary = f"{_path(folder)}.{os.getpid()}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(record._asdict(), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, _path(folder))


def prepare(folder: str) -> None:
    """Make the folder ready for a start: no proof of an earlier one is left."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    os.makedirs(proof_dir(folder), mode=0o700, exist_ok=True)
    clear_proofs(folder)


def remember(folder: str, record: Record, family: process.Family) -> Record:
    """Keep the members seen so far: one that leaves the family later is still known by its start time."""
    record = record._replace(family=sorted([pid, ticks] for pid, ticks in family.known))
    write(folder, record)
    return record


def clear_proofs(folder: str) -> None:
    """Proofs of an earlier start prove nothing about the next one."""
    with suppress(FileNotFoundError):
        for name in os.listdir(proof_dir(folder)):
            if name.endswith(".json"):
                os.unlink(os.path.join(proof_dir(folder), name))


def forget(folder: str) -> None:
    """The server is gone: so are its record and its proofs, and the folder where it holds nothing else."""
    with suppress(FileNotFoundError):
        os.unlink(_path(folder))
    clear_proofs(folder)
    with suppress(OSError):
        os.rmdir(proof_dir(folder))
        os.rmdir(folder)


def launch_sha256(launch: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(launch, sort_keys=True).encode()).hexdigest()
