"""A host to patch, revert and serve on, made of real classes over one small world.

The files and the journal are those of ``surveys.py``; the server remembers what was on disk when it started,
and shows it once it is asked to decode. Anything may be made to go wrong: ``world.meets("ready", boom)``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import msgspec

from oeactl.core.host import (
    FileRecord,
    Holder,
    Journal,
    Launch,
    Layer,
    Lease,
    Pending,
    Process,
    ProofFile,
    Reply,
    ServerState,
    Survey,
    SurveyRequest,
    Transaction,
    Written,
)
from oeactl.core.inventory import EngineSpec, Host, ServerSpec
from oeactl.core.outcomes import Patched, Reverted, Served, Status
from oeactl.core.plan import Planned
from oeactl.core.recipe import Recipe
from oeactl.errors import Locked, Refused, UsageError
from oeactl.flows import serve
from oeactl.flows.patch import patch
from oeactl.flows.revert import revert
from oeactl.flows.site import Site
from oeactl.flows.status import status
from oeactl.ports import Failed, Progress, Ready
from tests.support.bench_world import Told
from tests.support.recipes import MODULE, recipe_of
from tests.support.surveys import HOLDER, after_write, path_of, sha256, survey_of

PRISTINE = b"x = 1\n\n\ndef f():\n    return x\n"
NOTE = "- {id: note, op: insert_after, at: {statement: x = 1}, code: y = OEACTL.size}\n"
TAIL = "- {id: tail, op: append, code: z = OEACTL.size}\n"
PATH = path_of(MODULE)
OTHER = Holder(user="bob", host="desk", pid=7)
BOOT = 1796004000.0
AT = "2026-11-30T02:15:00+00:00"  # the moment of BOOT + 900


def a_recipe(**more: Any) -> Recipe:
    """A recipe of one edit, with the parameter ``size``."""
    return recipe_of(NOTE, proof=True, **more)


def another_recipe() -> Recipe:
    return recipe_of(TAIL, id="other", proof=True)


@dataclass(frozen=True)
class Running:
    """A server's processes. layers: what was on disk when it began; ours: begun by oeactl."""

    process: Process
    worker: Process
    layers: tuple[Layer, ...]
    started_at: float
    ours: bool = True
    listens: bool = True


@dataclass(frozen=True)
class After:
    """The same error, once the step has had its effect: an answer that was lost, a Ctrl-C that came late."""

    error: BaseException


class World:
    """asked: every step in order. shows: what a worker's proof says once it decodes, None for no proof.

    breaks, refuses: whether a server begun on these layers ends instead of coming up, or fails completions.
    intruder: another server that holds the port. answer: to a question; None where nobody is there.
    """

    def __init__(self, *, running: bool = True) -> None:
        self.asked: list[str] = []
        self.survey: Survey = survey_of({MODULE: PRISTINE})
        self.time = BOOT
        self.running: Running | None = None
        self.proofs: tuple[ProofFile, ...] = ()
        self.shows: str | None = "eager"
        self.workers = True
        self.healthy: bool | None = None
        self.breaks: Callable[[tuple[Layer, ...]], bool] = lambda layers: False
        self.refuses: Callable[[tuple[Layer, ...]], bool] = lambda layers: False
        self.intruder: Process | None = None
        self.probe: Refused | None = None
        self.answer: bool | None = True
        self.alive: set[int] = {HOLDER.pid, OTHER.pid}
        self._meets: defaultdict[str, list[BaseException | After | None]] = defaultdict(list)
        self._pid = 100
        if running:
            self.running = self.begin()
        self.time += 900.0

    def meets(self, step: str, *errors: BaseException | After | None) -> None:
        """The next times ``step`` is taken, these happen in turn; None: nothing."""
        self._meets[step].extend(errors)

    def step(self, name: str, effect: Callable[[], Any], text: str = "") -> Any:
        self.asked.append(text or name)
        error = self._meets[name].pop(0) if self._meets[name] else None
        if isinstance(error, BaseException):
            raise error
        done = effect()
        if error is not None:
            raise error.error
        return done

    @property
    def journal(self) -> Journal:
        return self.survey.journal

    @property
    def disk(self) -> bytes:
        return self.survey.files[0].data or b""

    @property
    def steps(self) -> list[str]:
        """All that was asked, but for looks and the lease."""
        looks = ("survey", "state", "health", "check", "lease", "settle")
        return [line for line in self.asked if line not in looks]

    def edit(self, data: bytes, **more: Any) -> None:
        """Somebody else writes the file."""
        (file,) = self.survey.files
        state = msgspec.structs.replace(file, data=data, sha256=sha256(data), **more)
        self.survey = msgspec.structs.replace(self.survey, files=(state,))

    def note(self, **changes: Any) -> None:
        """The journal says something else."""
        journal = msgspec.structs.replace(self.journal, **changes)
        self.survey = msgspec.structs.replace(self.survey, journal=journal)

    def begin(self, *, ours: bool = True, listens: bool = True) -> Running:
        self._pid += 10
        self.proofs = ()
        title = "" if ours else "python -m sglang.launch_server"
        return Running(
            process=Process(pid=self._pid, start_ticks=self._pid, boot_id="b", title=title),
            worker=Process(pid=self._pid + 1, start_ticks=self._pid, boot_id="b", role="tp0"),
            layers=self.journal.layers,
            started_at=self.time,
            ours=ours,
            listens=listens,
        )

    def show(self) -> None:
        """The worker decodes: it shows what it loaded when it began."""
        assert self.running is not None
        worker = self.running.worker
        self.proofs = tuple(
            ProofFile(
                kind=self.shows,  # type: ignore[arg-type]
                recipe=layer.recipe,
                digest=layer.digest,
                parameters=layer.parameters,
                file=PATH,
                pid=worker.pid,
                start_ticks=worker.start_ticks,
            )
            for layer in self.running.layers
            if self.shows
        )


class FakeFiles:
    def __init__(self, world: World) -> None:
        self._world = world

    def survey(self, request: SurveyRequest) -> Survey:
        survey = self._world.step("survey", lambda: self._world.survey)
        assert isinstance(survey, Survey)
        return survey if request.data else _without_data(survey)

    def write(self, transaction: Transaction) -> Written:
        written = self._world.step("write", lambda: self._write(transaction), f"write {transaction.kind}")
        assert isinstance(written, Written)
        return written

    def _write(self, transaction: Transaction) -> Written:
        world = self._world
        self._free(transaction.operation, transaction.holder)
        for write in transaction.files:
            now = sha256(world.disk)
            if now not in (write.before_sha256, write.after_sha256):
                raise Refused("it does not hold what the change was planned on", where=write.path)
            known = {write.after_sha256, *(record.expected_sha256 for record in world.journal.files)}
            if transaction.kind == "revert" and now not in known:
                if not transaction.force:
                    raise Refused("it is somebody's own edit", where=write.path)
                world.asked.append("kept a copy")
        if transaction.probe and world.probe:
            raise world.probe
        files = {write.path: write.after for write in transaction.files}
        world.survey = after_write(world.survey, files, transaction.layers)
        if transaction.lease_s is not None:
            self._take(transaction.operation, transaction.what, transaction.holder, transaction.lease_s)
        return Written(operation=transaction.operation, journal=world.journal, notes=("one hard link",))

    def recover(self, *, root: str, state_dir: str | None, force: bool = False) -> Journal:
        def effect() -> Journal:
            pending = self._world.journal.pending
            self._world.note(pending=None)
            said = f"undid the {pending.kind} that was cut short" if pending else None
            return msgspec.structs.replace(self._world.journal, recovered=said)

        journal = self._world.step("recover", effect, "recover --force" if force else "recover")
        assert isinstance(journal, Journal)
        return journal

    def lease(
        self, *, root: str, state_dir: str | None, operation: str, what: str, holder: Holder, lease_s: float
    ) -> None:
        def effect() -> None:
            self._free(operation, holder)
            self._take(operation, what, holder, lease_s)

        self._world.step("lease", effect)

    def settle(self, *, root: str, state_dir: str | None, operation: str) -> None:
        def effect() -> None:
            lease = self._world.journal.lease
            if lease and lease.operation == operation:
                self._world.note(lease=None)

        self._world.step("settle", effect)

    def _free(self, operation: str, holder: Holder) -> None:
        lease = self._world.journal.lease
        if (
            lease
            and self._world.time < lease.until
            and lease.operation != operation
            and lease.holder != holder
        ):
            raise Locked(f"{lease.holder.user} is at work", where="box")

    def _take(self, operation: str, what: str, holder: Holder, lease_s: float) -> None:
        now = self._world.time
        lease = Lease(operation=operation, what=what, holder=holder, since=now, until=now + lease_s)
        self._world.note(lease=lease)


def _without_data(survey: Survey) -> Survey:
    def bare(record: FileRecord) -> FileRecord:
        return msgspec.structs.replace(record, pristine=None)

    journal = msgspec.structs.replace(survey.journal, files=tuple(map(bare, survey.journal.files)))
    files = tuple(msgspec.structs.replace(file, data=None) for file in survey.files)
    return msgspec.structs.replace(survey, files=files, journal=journal)


class FakeServer:
    def __init__(self, world: World) -> None:
        self._world = world

    def state(self, *, health: bool = True) -> ServerState:
        state = self._world.step("state", lambda: self._state(health), "health" if health else "state")
        assert isinstance(state, ServerState)
        return state

    def _state(self, health: bool) -> ServerState:
        world, running = self._world, self._world.running
        if running is None:
            return ServerState(recorded=None, listener=None, healthy=False if health else None)
        well = running.listens if world.healthy is None else world.healthy
        return ServerState(
            recorded=running.process if running.ours else None,
            listener=world.intruder or (running.process if running.listens else None),
            foreign=not running.ours or world.intruder is not None,
            workers=(running.worker,) if world.workers else (),
            started_at=running.started_at,
            healthy=well if health else None,
            health="" if well else "HTTP 503",
        )

    def check(self, launch: Launch, *, alone: bool = False) -> None:
        self._world.step("check", lambda: None)

    def start(self, launch: Launch) -> Process:
        def effect() -> Process:
            if self._world.running is not None:
                raise Refused("the server is already running", hint="oeactl stop")
            self._world.running = self._world.begin(listens=False)
            return self._world.running.process

        process = self._world.step("start", effect)
        assert isinstance(process, Process)
        return process

    def await_ready(self, process: Process, launch: Launch, progress: Progress) -> Ready | Failed:
        def effect() -> Ready | Failed:
            world, running = self._world, self._world.running
            for _ in range(20):
                world.time += 60.0
                progress.update("loading weights", done=40, total=100)
            if running is None or running.process != process or world.breaks(running.layers):
                world.running = None
                tail = ("loading", "ValueError: patched badly")
                return Failed(why="the server's process ended", first_error=tail[1], tail=tail)
            world.running = Running(**{**running.__dict__, "listens": True})
            return Ready(process=process, seconds=1200.0)

        outcome = self._world.step("ready", effect)
        assert isinstance(outcome, Ready | Failed)
        return outcome

    def stop(self, progress: Progress, *, foreign: bool = False) -> None:
        def effect() -> None:
            running = self._world.running
            if running and not running.ours and not foreign:
                raise Refused("the server was not started by oeactl")
            self._world.running = None

        self._world.step("stop", effect, "stop foreign" if foreign else "stop")

    def log_lines(self, count: int) -> tuple[str, ...]:
        return ("last words of the log",)

    def follow_log(self, count: int) -> AbstractContextManager[Iterator[str]]:
        raise AssertionError("no flow follows a log")

    def proofs(self) -> tuple[ProofFile, ...]:
        return self._world.proofs


class FakeEngine:
    def __init__(self, world: World) -> None:
        self._world = world

    def info(self) -> dict[str, Any]:
        raise AssertionError("only bench asks")

    def complete(
        self, *, prompts: Sequence[Sequence[int]], output_len: int, concurrency: int
    ) -> tuple[Reply, ...]:
        def effect() -> tuple[Reply, ...]:
            if self._world.running is None or self._world.refuses(self._world.running.layers):
                return (Reply(status=500, body=b"no kernel image"),) * len(prompts)
            self._world.show()
            return (Reply(status=200),) * len(prompts)

        replies = self._world.step("complete", effect)
        assert isinstance(replies, tuple)
        return replies

    def flush_cache(self) -> bool:
        raise AssertionError("only bench flushes")


class FakeClock:
    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> float:
        return self._world.time

    def sleep(self, seconds: float) -> None:
        self._world.time += seconds


class FakePrompt:
    def __init__(self, world: World) -> None:
        self._world = world

    def confirm(self, question: str) -> bool:
        def effect() -> bool:
            if self._world.answer is None:
                raise UsageError(f"'{question}' needs an answer", hint="--yes")
            return self._world.answer

        return bool(self._world.step("ask", effect, f"ask: {question}"))


class Operator:
    """Somebody at a terminal, with this world at the other end."""

    def __init__(self, world: World, *, server: bool = True, holder: Holder = HOLDER) -> None:
        self.world = world
        self.told = Told()
        self.shown: list[Planned] = []
        self.restored = 0
        spec = ServerSpec(argv=("-m", "sglang.launch_server"), log="/log")
        self.site = Site(
            host=Host(name="box", engine=EngineSpec(python="/py"), server=spec if server else None),
            files=FakeFiles(world),
            server=FakeServer(world) if server else None,
            engine=FakeEngine(world) if server else None,
            clock=FakeClock(world),
            progress=self.told,
            prompt=FakePrompt(world),
            holder=holder,
            alive=lambda pid: pid in world.alive,
        )

    def patch(
        self, size: int = 4, *, recipe: Recipe | None = None, dry_run: bool = False, restart: bool = True
    ) -> Patched:
        return patch(
            self.site,
            recipe or a_recipe(),
            {"size": str(size)},
            operation=f"patch-{size}",
            applied_at=AT,
            dry_run=dry_run,
            restart=restart,
            show=lambda plan, survey: self.shown.append(plan),
        )

    def revert(self, recipe: str | None = None, *, restart: bool = True, force: bool = False) -> Reverted:
        def restored() -> None:
            self.restored += 1

        return revert(
            self.site, recipe=recipe, operation="revert-1", restart=restart, force=force, restored=restored
        )

    def start(self) -> Served:
        return serve.start(self.site, operation="start-1")

    def stop(self) -> Served:
        return serve.stop(self.site, operation="stop-1")

    def restart(self) -> Served:
        return serve.restart(self.site, operation="restart-1")

    def status(self) -> Status:
        return status(self.site, modules=(MODULE,))


def patched(*, running: bool = True) -> Operator:
    """A host on which the recipe is applied, and proven where its server runs."""
    operator = Operator(World(running=running))
    operator.patch()
    if not running:
        operator.world.running = None
    operator.world.asked.clear()
    operator.told.__init__()  # type: ignore[misc]
    return operator


def held(operator: Operator, holder: Holder = OTHER, what: str = "bench") -> None:
    """Somebody holds the lease."""
    now = operator.world.time
    lease = Lease(operation="theirs", what=what, holder=holder, since=now - 60, until=now + 600)
    operator.world.note(lease=lease)


def pending(kind: str = "patch") -> Pending:
    return Pending(operation="old", kind=kind, started_at="2026-11-29T00:00:00+00:00")
