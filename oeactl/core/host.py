"""What a host's agent reports and is asked: the values of the wire, seen from the client.

Owns: the vocabulary shared by planning, flows and the agent's JSON. Field names are the wire's
names (bytes travel as base64). Refuses: to decide anything.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every frozen value here; a key that one side does not know is an error, not a shrug."""


class Holder(Value, frozen=True, kw_only=True):
    """Who does something: for leases, journals and messages."""

    user: str
    host: str
    pid: int


class Edit(Value, frozen=True, kw_only=True):
    """Replace ``pristine[start:end]`` by ``text``: byte offsets into the pristine file, half open."""

    start: int
    end: int
    text: bytes


class Launch(Value, frozen=True, kw_only=True):
    """How a server process is begun: argv after the interpreter, environment over the host's own."""

    python: str
    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    log: str
    url: str


class Layer(Value, frozen=True, kw_only=True):
    """One applied recipe, as the host's journal keeps it: enough to undo or recompose without the recipe.

    edits: real path -> edits, all of them against the *pristine* bytes of that file.
    digest: the plan digest that the proof files carry.
    args/env: what it adds to the server's launch (empty for most).
    """

    recipe: str
    revision: int
    parameters: dict[str, Any]
    digest: str
    operation: str
    applied_at: str
    applied_by: Holder
    edits: dict[str, tuple[Edit, ...]]
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    proof: bool = True


class FileRecord(Value, frozen=True, kw_only=True):
    """A file the journal answers for. pristine is there when the survey asked for data.

    pristine_sha256 '': there was no such file; folders: those that were made for it.
    """

    module: str
    path: str
    pristine_sha256: str
    expected_sha256: str
    mode: int
    uid: int
    gid: int
    pristine: bytes | None = None
    folders: tuple[str, ...] = ()


class Pending(Value, frozen=True, kw_only=True):
    """A transaction that began and did not end: the agent finishes or undoes it before anything else."""

    operation: str
    kind: str
    started_at: str


class Lease(Value, frozen=True, kw_only=True):
    """One operator at a time, from patch to proof or through a bench. Times: unix seconds, host clock."""

    operation: str
    what: str
    holder: Holder
    since: float
    until: float


class Journal(Value, frozen=True, kw_only=True):
    """The host's record for one engine root.

    gone: recipes that went with a container which was made anew since.
    """

    root: str
    layers: tuple[Layer, ...] = ()
    files: tuple[FileRecord, ...] = ()
    pending: Pending | None = None
    lease: Lease | None = None
    recovered: str | None = None
    gone: tuple[str, ...] = ()


class FileState(Value, frozen=True, kw_only=True):
    """A target as it stands now. path: the real file (symlinks followed). missing: no such file here.

    module: a dotted name, or for a file that is taken as a whole its path from the folder with the package.
    folder: whether the folder is there that it would lie in.
    """

    module: str
    path: str
    missing: bool = False
    sha256: str = ""
    size: int = 0
    mode: int = 0
    uid: int = 0
    gid: int = 0
    mtime_ns: int = 0
    nlink: int = 1
    writable: bool = True
    problem: str | None = None
    record_sha256: str | None = None
    data: bytes | None = None
    folder: bool = True


class EngineFacts(Value, frozen=True, kw_only=True):
    """The engine's copy that the server's interpreter would import. root: the package's own real folder."""

    package: str
    root: str
    version: str | None
    python_version: str
    editable: bool = False
    git_commit: str | None = None
    git_dirty_sha256: str | None = None


class ModelFacts(Value, frozen=True, kw_only=True):
    """The served model's config.json as found on the host; config is None when it could not be found."""

    path: str
    revision: str | None = None
    config: dict[str, Any] | None = None
    problem: str | None = None


class HostFacts(Value, frozen=True, kw_only=True):
    """The machine, as far as a plain process can tell. gpus: rows of nvidia-smi, empty without it."""

    hostname: str
    user: str
    uid: int
    boot_id: str
    time: float
    cpus: int
    memory_bytes: int
    kernel: str
    state_dir: str
    gpus: tuple[dict[str, str], ...] = ()


class SurveyRequest(Value, frozen=True, kw_only=True):
    """What to look at. data: also send file bytes and the journal's pristine bytes."""

    package: str
    modules: tuple[str, ...]
    python: str
    root: str | None
    cwd: str | None
    env: dict[str, str]
    state_dir: str | None
    model: str | None = None
    data: bool = True


class NodeFacts(Value, frozen=True, kw_only=True):
    """One machine of a server over several. recipes: digest of each that its own journal has -> its name."""

    name: str
    host: HostFacts
    engine: EngineFacts
    recipes: dict[str, str]


PatchMode = Literal["inplace", "overlay", "prelude"]


class Survey(Value, frozen=True, kw_only=True):
    """Everything one look at a host tells. at_rest: a container that does not run, as it was seen last.

    nodes: of a server over several machines; host and engine are then the first one's, and paths begin with
    a node's name: ``n2:/opt/…``. away: nodes that could not be reached, and why.
    patch_mode: how the files of an engine in a container are changed, None for any other. mounted: whether
    the container was made with what the journal says by now; False after a change that no start followed.
    """

    host: HostFacts
    engine: EngineFacts
    files: tuple[FileState, ...]
    journal: Journal
    model: ModelFacts | None = None
    at_rest: bool = False
    nodes: tuple[NodeFacts, ...] = ()
    away: dict[str, str] = {}
    patch_mode: PatchMode | None = None
    mounted: bool = True


class FileWrite(Value, frozen=True, kw_only=True):
    """Make ``path`` hold ``after``; refuse unless it holds ``before_sha256`` now. '' is the hash of no file.

    pristine_sha256 names the original (backed up from ``before`` on the first patch).
    """

    module: str
    path: str
    before_sha256: str
    after: bytes
    after_sha256: str
    pristine_sha256: str


class Probe(Value, frozen=True, kw_only=True):
    """Import these modules in a child with the server's interpreter and environment, no GPU.

    gatherers: modules that import many others and swallow what fails; imported too where there are any.
    """

    modules: tuple[str, ...]
    gatherers: tuple[str, ...] = ()
    cwd: str | None
    env: dict[str, str]
    timeout_s: float = 300.0


class Transaction(Value, frozen=True, kw_only=True):
    """All files or none. layers: the journal's whole stack afterwards; empty closes the record.

    lease_s: hold the lease that long after the write (a restart and a proof follow); None ends it at once.
    force: on revert, keep a copy of a foreign file and overwrite it.
    """

    operation: str
    kind: Literal["patch", "revert", "rollback"]
    root: str
    state_dir: str | None
    files: tuple[FileWrite, ...]
    layers: tuple[Layer, ...]
    holder: Holder
    what: str
    lease_s: float | None = None
    probe: Probe | None = None
    force: bool = False


class Written(Value, frozen=True, kw_only=True):
    """On disk, fsynced and read back. notes: things worth a line (hard links, kept copies)."""

    operation: str
    journal: Journal
    notes: tuple[str, ...] = ()


class Process(Value, frozen=True, kw_only=True):
    """Identity of a process: pid, start time (clock ticks since boot), boot id; title and role for people.

    node: which machine of a server over several it is on.
    """

    pid: int
    start_ticks: int
    boot_id: str
    title: str = ""
    role: str = ""
    node: str = ""

    @property
    def key(self) -> tuple[str, int, int]:
        """What a proof names its worker by."""
        return (self.node, self.pid, self.start_ticks)

    @property
    def called(self) -> str:
        """For messages: ``pid 12``, ``pid 12 on n2``; ``on n2`` for a part that is not to be seen."""
        there = (f"pid {self.pid}" if self.pid else "", f"on {self.node}" if self.node else "")
        return " ".join(filter(None, there))


class ServerState(Value, frozen=True, kw_only=True):
    """What runs. recorded: the leader we started, None if none or gone. listener: whoever holds the port.

    foreign: the listener is none of ours. lost: the leader and the workers of a server that was ready which
    ended since, and not by oeactl. last_error: what the log says of it where the leader is among them.
    image, image_digest: of its container, as docker tells them; None where there is none.
    """

    recorded: Process | None
    listener: Process | None
    foreign: bool = False
    workers: tuple[Process, ...] = ()
    started_at: float | None = None
    healthy: bool | None = None
    health: str = ""
    log_end: int = 0
    lost: tuple[Process, ...] = ()
    last_error: str | None = None
    image: str | None = None
    image_digest: str | None = None


class ExpertCount(Value, frozen=True, kw_only=True):
    """Distinct experts of the last steps of one layer: as the engine would have chosen, and as it did.

    steps: how many there were in all.
    """

    steps: int
    before: tuple[int, ...]
    after: tuple[int, ...]


class ProofFile(Value, frozen=True, kw_only=True):
    """One JSON file of a worker: the branch it went through, and the digest it was rendered with.

    reason: of kind "skipped", why a batch of decode was left as it is. counts: of kind "experts", which
    proves nothing: rows of a batch of decode -> layer.
    """

    kind: Literal["loaded", "eager", "capture", "compiled", "skipped", "experts"]
    recipe: str
    digest: str
    parameters: dict[str, Any]
    file: str
    pid: int
    start_ticks: int
    mode: str | None = None
    layer: int | None = None
    rows: int | None = None
    reason: str | None = None
    counts: dict[str, dict[str, ExpertCount]] = {}
    node: str = ""

    @property
    def key(self) -> tuple[str, int, int]:
        """The ``Process.key`` of the worker."""
        return (self.node, self.pid, self.start_ticks)


class Reply(Value, frozen=True, kw_only=True):
    """An HTTP answer as fetched on the host. status 0: no answer, error says why."""

    status: int
    body: bytes = b""
    error: str = ""
    seconds: float = 0.0


class FolderFacts(Value, frozen=True, kw_only=True):
    """Room for ``path``. there: it, or the nearest folder above it that exists."""

    path: str
    there: str
    free_bytes: int
    writable: bool


class GpuHolder(Value, frozen=True, kw_only=True):
    """A process that holds GPU memory. mib: None where the driver does not say."""

    pid: int
    mib: int | None
    what: str


class MachineFacts(Value, frozen=True, kw_only=True):
    """A machine as a diagnosis needs it. python, executable: of the agent's own interpreter."""

    python: str
    executable: str
    user: str
    time: float
    folders: tuple[FolderFacts, ...] = ()
    programs: dict[str, str | None] = {}
    gpu_holders: tuple[GpuHolder, ...] = ()
