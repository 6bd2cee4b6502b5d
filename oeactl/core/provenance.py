"""On what something was measured: machine, engine, model, server, load client, proofs, as a trial keeps them.

Owns: those records of the results; names have units, no field is made up. Refuses: secrets (removed before).
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from oeactl.core.host import Value

Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class HostRecord(Value, frozen=True, kw_only=True):
    """The machine. gpus: rows of nvidia-smi as they came, empty without it; no field is made up.

    None: of a server that is known by its URL alone.
    """

    name: str
    hostname: str
    kernel: str | None
    cpus: int | None
    memory_bytes: int | None
    boot_id: str | None
    gpus: tuple[dict[str, str], ...] = ()


class EngineRecord(Value, frozen=True, kw_only=True):
    """The engine's copy on the host. git_dirty_sha256: of its uncommitted difference, None without one.

    root, python_version: None of a server that is known by its URL alone.
    """

    package: str
    root: str | None
    version: str | None
    python_version: str | None
    editable: bool
    git_commit: str | None
    git_dirty_sha256: str | None


class ProofRecord(Value, frozen=True, kw_only=True):
    """One proof file of a worker, as it was read when the trial ended."""

    kind: Literal["loaded", "eager", "capture", "compiled"]
    recipe: str
    digest: str
    file: str
    pid: int
    start_ticks: int
    mode: str | None
    layer: int | None
    rows: int | None


class ModelRecord(Value, frozen=True, kw_only=True):
    """What is served, as the server says. config_sha256: of its config.json's canonical form."""

    path: str | None = None
    served_name: str | None = None
    revision: str | None = None
    quantization: str | None = None
    architectures: tuple[str, ...] = ()
    config_sha256: str | None = None


class LaunchRecord(Value, frozen=True, kw_only=True):
    """How a server is begun. argv: after the interpreter, the arm's and the recipes' own included; no secret.

    Of a container, a unit or a command of its owner's the whole command, which begins with no option.
    stop, status: of ``manager: commands``; no secret.
    engine_root: the folder that holds the engine, where hosts.yaml names one.
    image, image_digest: of its container; None where there is none, or docker does not tell.
    """

    manager: str
    python: str
    argv: tuple[str, ...]
    cwd: str | None = None
    engine_root: str | None = None
    image: str | None = None
    image_digest: str | None = None
    stop: tuple[str, ...] = ()
    status: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The whole command."""
        after = not self.argv or self.argv[0].startswith("-") or self.argv[0].endswith(".py")
        return (self.python, *self.argv) if after else self.argv


class ServerRecord(Value, frozen=True, kw_only=True):
    """The server that was measured. args: its own account of them, secrets removed.

    environment: of what hosts.yaml and the arm give it, the allow-listed names. gpus: how many it uses; None
    unknown. launch: how it is begun; None of a server that is known by its URL alone.
    """

    url: str
    pid: int | None
    start_ticks: int | None
    started_at: Moment | None
    args: dict[str, Any]
    environment: dict[str, str]
    gpus: int | None
    launch: LaunchRecord | None = None


class DriverRecord(Value, frozen=True, kw_only=True):
    """Who sent the load and what its figures rest on.

    version: of the package it comes in. flags: those of ours that this release of it knows.
    duration_includes: what the driver's clock covers besides first send to last token.
    """

    name: str
    program: str
    version: str | None = None
    flags: tuple[str, ...] = ()
    tokens_from: str = "server"
    duration_includes: str = ""
