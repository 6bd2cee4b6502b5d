"""Which hosts this user has patched from this machine, so that ``revert`` can name the others.

Owns: one small JSON file under the XDG state folder. Refuses: to be believed about a host (its journal is
what counts), to fail a command (a damaged or unwritable file is as good as none), to contact anyone.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from oeactl.core.outcomes import OnRecord


class LocalRecord:
    """The record at ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def patched(self) -> tuple[OnRecord, ...]:
        """What is on record, oldest first."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=tuple[OnRecord, ...])
        except (OSError, msgspec.DecodeError):
            return ()

    def add(self, *patched: OnRecord) -> None:
        """Note patches, each in place of an earlier one of the same recipe on the same host."""
        self._change(lambda entry: not any(_same(entry, new) for new in patched), *patched)

    def remove(self, *, host: str, project: str, recipe: str | None = None) -> None:
        """Forget a recipe on a host, or all of them."""

        def stays(entry: OnRecord) -> bool:
            there = entry.host == host and entry.project == project
            return not (there and recipe in (None, entry.recipe))

        self._change(stays)

    def others(self, *, host: str, project: str) -> tuple[OnRecord, ...]:
        """What is on record for every host but this one."""
        return tuple(
            entry for entry in self.patched() if not (entry.host == host and entry.project == project)
        )

    def _change(self, stays: Callable[[OnRecord], bool], *new: OnRecord) -> None:
        with suppress(OSError), self._locked():
            entries = (*filter(stays, self.patched()), *new)
            handle, temporary = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                Path(temporary).replace(self._path)
            except OSError:
                Path(temporary).unlink(missing_ok=True)
                raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Two commands at once each keep the other's line."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _same(entry: OnRecord, other: OnRecord) -> bool:
    return (entry.host, entry.project, entry.recipe) == (other.host, other.project, other.recipe)


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where oeactl keeps what it knows here: ``$XDG_STATE_HOME/oeactl``, by default in ``~/.local/state``."""
    state = environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state.startswith("/") else Path.home() / ".local" / "state") / "oeactl"


def local_record(environ: Mapping[str, str] = os.environ) -> LocalRecord:
    """This user's record: ``patched.json`` there."""
    return LocalRecord(state_folder(environ) / "patched.json")
