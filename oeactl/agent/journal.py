"""The host's record for one engine root: what was changed, by whom, and the bytes that were there before.

Owns: the state folder (journal.json, blobs/, RESTORE.txt, lock), its place, and the lease. Refuses: to touch
the engine's files.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress

from . import disk, jsontext
from .steps import reach
from .wire import AgentError, operation, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .wire import Client

    Journal = dict[str, Any]

SCHEMA = 1
LOCK_WAIT_S = 20.0
CLOCK_JUMP_S = 5.0
CLOCK_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def state_path(root: str, state_dir: str | None) -> str:
    """Where the record of ``root`` lies: as root in /var/lib, else in the own home."""
    if state_dir:
        return os.path.abspath(os.path.expanduser(state_dir))
    base = "/var/lib" if os.geteuid() == 0 else os.path.expanduser("~/.local/state")
    return os.path.join(base, "oeactl", _key(root))


def _key(root: str) -> str:
    return disk.sha256(os.path.realpath(root).encode())[:16]


def elsewhere(root: str, state_dir: str | None) -> str | None:
    """The record another user keeps of the same engine: root's, or the owner's where we are root."""
    if state_dir:
        return None
    if os.geteuid() != 0:
        other = os.path.join("/var/lib/oeactl", _key(root))
    else:
        owner = os.stat(root).st_uid if os.path.exists(root) else 0
        home = disk.home_of(owner) if owner else None
        if home is None:
            return None
        other = os.path.join(home, ".local/state/oeactl", _key(root))
    return other if os.path.isdir(other) else None


def no_other_record(root: str, state_dir: str | None) -> None:
    """Raise when another user keeps a record of this engine: two journals would undo each other."""
    other = elsewhere(root, state_dir)
    if other is not None:
        owner = disk.user_name(os.stat(other).st_uid)
        raise AgentError(
            "refused",
            f"{owner} keeps the record of this engine",
            other,
            "connect as that user" + (", or set become: sudo in hosts.yaml" if owner == "root" else ""),
        )


def blank(root: str) -> Journal:
    return {
        "schema": SCHEMA,
        "root": root,
        "layers": [],
        "files": [],
        "pending": None,
        "lease": None,
    }


def is_blank(journal: Journal) -> bool:
    """Whether nothing is recorded. beside: files of a container (agent/beside.py)."""
    told = journal["layers"] or journal["files"] or journal["pending"] or journal.get("beside")
    return not (told or active_lease(journal))


class Store:
    """The state folder of one engine root; ``locked`` creates it, and clears it when it says nothing."""

    def __init__(self, root: str, state_dir: str | None) -> None:
        self.root = os.path.realpath(root)
        self.path = state_path(root, state_dir)
        self._default = not state_dir
        self._blobs = os.path.join(self.path, "blobs")
        self._journal = os.path.join(self.path, "journal.json")
        self._note = os.path.join(self.path, "RESTORE.txt")
        self._lock = os.path.join(self.path, "lock")

    def read(self) -> Journal:
        try:
            journal = jsontext.loads(disk.read(self._journal))
        except FileNotFoundError:
            return blank(self.root)
        except PermissionError:
            raise AgentError(
                "refused",
                "the journal belongs to another user",
                self._journal,
                "connect as that user, or set become: sudo in hosts.yaml",
            ) from None
        except ValueError:
            raise AgentError(
                "degraded",
                "the journal cannot be read",
                self._journal,
                f"the plain way back is in {self._note}",
            ) from None
        if journal.get("schema") != SCHEMA:
            raise AgentError(
                "refused", "another version of oeactl wrote this journal", self._journal, "use that version"
            )
        if journal["root"] != self.root:
            raise AgentError(
                "refused",
                f"this folder holds the record of {journal['root']}, not of {self.root}",
                self._journal,
                "give each engine its own state_dir in hosts.yaml",
            )
        assert isinstance(journal, dict)
        return journal

    def save(self, journal: Journal) -> None:
        self.prepare(journal)
        self.install()

    def prepare(self, journal: Journal) -> None:
        """Write the journal that ``install`` makes the valid one."""
        reach("write journal", self._journal)
        disk.prepare(self._journal, jsontext.dumps_lines(journal))

    def install(self) -> None:
        reach("install journal", self._journal)
        disk.install(self._journal)

    @contextmanager
    def locked(self, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
        """Hold this folder for one message; afterwards it is gone if the journal is blank."""
        with disk.explained(self.path):
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
        handle = self._acquire(wait_s)
        try:
            disk.remove(self._journal + ".new")
            yield
        finally:
            if is_blank(self.read()):
                self._clear()
            os.close(handle)

    def _acquire(self, wait_s: float) -> int:
        limit = time.monotonic() + wait_s
        while True:
            with disk.explained(self._lock):
                try:
                    handle = self._open_lock()
                except FileNotFoundError:  # the folder was cleared between the two
                    continue
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                if time.monotonic() > limit:
                    raise self._busy() from None
                time.sleep(0.05)
                continue
            with suppress(FileNotFoundError):
                if os.path.samestat(os.stat(self._lock), os.fstat(handle)):
                    return handle
            os.close(handle)  # the last holder cleared the folder while we waited

    def _open_lock(self) -> int:
        with suppress(FileExistsError):
            os.mkdir(self.path, 0o700)
        return os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _busy(self) -> AgentError:
        pending = self.read()["pending"]
        who = f"{describe(pending['holder'])}: {pending['what']}" if pending else "another command"
        return AgentError("locked", f"the files are being changed right now by {who}", self.path, "try again")

    def keep(self, data: bytes) -> None:
        """Keep ``data`` under its hash, on the disk for good."""
        target = self.backup(disk.sha256(data))
        if disk.hash_of(target) == os.path.basename(target):
            return
        first = not os.path.isdir(self._blobs)
        os.makedirs(self._blobs, 0o700, exist_ok=True)
        reach("write backup", target)
        disk.write_durably(target, data)
        if first:
            disk.sync_directory(self.path)

    def blob(self, digest: str) -> bytes | None:
        """The bytes kept under ``digest``; None when they are not there, or no longer what they were."""
        try:
            data = disk.read(self.backup(digest))
        except FileNotFoundError:
            return None
        return data if disk.sha256(data) == digest else None

    def keep_foreign(self, path: str, data: bytes) -> str:
        """A copy of somebody's edit that is about to be overwritten; it stays until a person removes it."""
        folder = os.path.join(self.path, "kept")
        os.makedirs(folder, 0o700, exist_ok=True)
        target = os.path.join(folder, f"{os.path.basename(path)}.{disk.sha256(data)[:16]}")
        disk.write_durably(target, data)
        return target

    def tidy(self, journal: Journal) -> None:
        """Drop backups nothing refers to, bring RESTORE.txt up to date. What fails is done next time."""
        needed = {record["pristine_sha256"] for record in journal["files"]}
        with suppress(OSError):
            for name in os.listdir(self._blobs):
                if name not in needed:
                    reach("drop backup", name)
                    os.unlink(os.path.join(self._blobs, name))
        with suppress(OSError):
            self.write_note(journal["files"])

    def write_note(self, records: list[dict[str, Any]]) -> None:
        """RESTORE.txt: the commands for the day there is no oeactl."""
        if not records:
            disk.remove(self._note)
            return
        lines = [
            f"# oeactl changed files under {self.root}.",
            "# These commands put the originals back; stop the server first, start it afterwards.",
            *(line for record in records for line in self._commands(record)),
            f"rm -f -- {_quoted(self._journal)}",
        ]
        reach("write RESTORE.txt", self._note)
        disk.write_durably(self._note, ("\n".join(lines) + "\n").encode())

    def _commands(self, record: dict[str, Any]) -> Iterator[str]:
        path = record["path"]
        folder, name = os.path.split(path)
        if record["pristine_sha256"] == disk.ABSENT:
            yield f"rm -f -- {_quoted(path)}"
        else:
            yield f"cp -- {_quoted(self.backup(record['pristine_sha256']))} {_quoted(path)}"
        if name.endswith(".py"):
            yield f"rm -f -- {_quoted(folder)}/__pycache__/{_quoted(name[: -len('.py')])}.*.pyc"
        for made in reversed(record.get("folders", ())):
            yield f"rmdir -- {_quoted(made)} 2>/dev/null || true"

    def _leftover(self, journal: Journal) -> dict[str, Any] | None:
        """What a crash left of a blank record, to be cleared away: for the client it is pending too."""
        left = [path for path in (self._journal, self._blobs, self._lock) if os.path.exists(path)]
        if not left or not is_blank(journal):
            return None
        return {"operation": "", "kind": "clear", "started_at": disk.iso(os.stat(left[0]).st_mtime)}

    def backup(self, digest: str) -> str:
        """Where the bytes of that hash are kept."""
        return os.path.join(self._blobs, digest)

    def _clear(self) -> None:
        with suppress(OSError):
            reach("clear record", self.path)
            for name in os.listdir(self._blobs):
                os.unlink(os.path.join(self._blobs, name))
            os.rmdir(self._blobs)
        for path in (self._note, self._journal, self._lock):
            with suppress(OSError):
                disk.remove(path + ".new")
                disk.remove(path)
        with suppress(OSError):  # not empty: copies of foreign files are kept
            os.rmdir(self.path)
            if self._default:
                os.rmdir(os.path.dirname(self.path))

    def public(self, journal: Journal, *, data: bool = False, recovered: str | None = None) -> Journal:
        """The wire's Journal."""
        pending = journal["pending"] or self._leftover(journal)
        files = [dict(record) for record in journal["files"]]
        if data:
            for record in files:
                digest = record["pristine_sha256"]
                kept = b"" if digest == disk.ABSENT else self.blob(digest)
                record["pristine"] = None if kept is None else to_text(kept)
        return {
            "root": journal["root"],
            "layers": journal["layers"],
            "files": files,
            "pending": pending and {key: pending[key] for key in ("operation", "kind", "started_at")},
            "lease": active_lease(journal),
            "recovered": recovered,
        }


def _quoted(text: str) -> str:
    """One word of a shell's line, whatever is in it."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def describe(holder: dict[str, Any]) -> str:
    return f"{holder['user']}@{holder['host']}"


def boot_id() -> str:
    with suppress(OSError):
        return disk.read("/proc/sys/kernel/random/boot_id").decode().strip()
    return ""


def new_lease(
    operation: str, what: str, holder: dict[str, Any], seconds: float, old: Any = None
) -> dict[str, Any]:
    """A lease from now. The time since boot is kept beside the wall clock, which may jump."""
    now = time.time()
    return {
        "operation": operation,
        "what": what,
        "holder": holder,
        "since": old["since"] if old and old["operation"] == operation else now,
        "until": now + seconds,
        "boot_id": boot_id(),
        "boot_until": time.clock_gettime(CLOCK_BOOTTIME) + seconds,
    }


def active_lease(journal: Journal) -> dict[str, Any] | None:
    """The wire's Lease, while it holds. ``until`` follows the present wall clock after a jump."""
    lease = journal["lease"]
    if lease is None:
        return None
    now = time.time()
    until = lease["until"]
    if lease["boot_id"] and lease["boot_id"] == boot_id():
        by_boot = now + lease["boot_until"] - time.clock_gettime(CLOCK_BOOTTIME)
        until = by_boot if abs(by_boot - until) > CLOCK_JUMP_S else until
    if until <= now:
        return None
    shown = {key: lease[key] for key in ("operation", "what", "holder", "since")}
    return {**shown, "until": until}


def check_lease(store: Store, journal: Journal, operation: str, holder: dict[str, Any]) -> None:
    """Raise when somebody else holds the lease: neither this operation nor the very same client process."""
    lease = active_lease(journal)
    if lease is None or lease["operation"] == operation or lease["holder"] == holder:
        return
    raise AgentError(
        "locked",
        f"{describe(lease['holder'])} is at work on this engine: {lease['what']}",
        store.path,
        "wait, or ask them; where nobody is at work any more: oeactl unlock --force",
        [
            f"since {disk.iso(lease['since'])}, at most until {disk.iso(lease['until'])}",
            f"operation {lease['operation']}",
        ],
    )


@operation("journal")
def show(request: dict[str, Any], client: Client) -> Journal:
    """Read only: what the record of ``root`` says."""
    store = Store(request["root"], request["state_dir"])
    return store.public(store.read())


@operation("lease")
def take(request: dict[str, Any], client: Client) -> Journal:
    """Take or renew a lease for ``operation`` over ``lease_s`` seconds."""
    store = Store(request["root"], request["state_dir"])
    with store.locked(), disk.explained(store.path):
        journal = store.read()
        check_lease(store, journal, request["operation"], request["holder"])
        journal["lease"] = new_lease(
            request["operation"], request["what"], request["holder"], request["lease_s"], journal["lease"]
        )
        store.save(journal)
        return store.public(journal)


@operation("settle")
def settle(request: dict[str, Any], client: Client) -> None:
    """End the lease of ``operation``, if it is still there."""
    store = Store(request["root"], request["state_dir"])
    if not os.path.isdir(store.path):
        return
    with store.locked(), disk.explained(store.path):
        journal = store.read()
        if journal["lease"] and journal["lease"]["operation"] == request["operation"]:
            journal["lease"] = None
            store.save(journal)
