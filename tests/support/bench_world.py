"""A host under bench, made of real classes: files, server, engine, driver and clock over one small world."""

from __future__ import annotations

from array import array
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from oeactl.core.burst import PointMeasured, PointRequest
from oeactl.core.host import (
    Edit,
    EngineFacts,
    FileRecord,
    FileState,
    Holder,
    HostFacts,
    Journal,
    Launch,
    Layer,
    ModelFacts,
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
from oeactl.core.load import Sweep, make_sweep
from oeactl.core.provenance import DriverRecord
from oeactl.core.routing import RoutedRequest
from oeactl.core.run import Run, Sending
from oeactl.core.telemetry import Sample
from oeactl.edges.store import ResultsFolder
from oeactl.errors import ConnectionLost, Locked
from oeactl.flows.bench import Benched, Order, bench
from oeactl.flows.site import Site
from oeactl.ports import Progress, Ready
from tests.support.levels import UP, WORKER, a_measurement, some_rows
from tests.support.surveys import sha256

MODULE = "sglang.srt.layers.moe.topk"
PATH = "/engine/sglang/srt/layers/moe/topk.py"
BEFORE, AFTER = b"x = 1\n", b"x = 1\ny = 2\n"
PRISTINE, PATCHED = sha256(BEFORE), sha256(AFTER)
WHO = Holder(user="ann", host="laptop", pid=77)
LAYER = Layer(
    recipe="oea",
    revision=1,
    parameters={"k0": 2, "min_tokens": 2},
    digest="d" * 64,
    operation="op",
    applied_at="2026-11-30T00:00:00Z",
    applied_by=WHO,
    edits={PATH: (Edit(start=6, end=6, text=b"y = 2\n"),)},
)
PROOF = ProofFile(
    kind="eager",
    recipe="oea",
    digest=LAYER.digest,
    parameters=LAYER.parameters,
    file=PATH,
    pid=WORKER.pid,
    start_ticks=WORKER.start_ticks,
    mode="DECODE",
    layer=1,
    rows=4,
)
RECORD = FileRecord(
    module=MODULE,
    path=PATH,
    pristine_sha256=PRISTINE,
    expected_sha256=PATCHED,
    mode=0o644,
    uid=0,
    gid=0,
)
TOKEN = Reply(status=200, body=b'{"text":"","meta_info":{"completion_tokens":1}}')
GONE = Reply(status=0, error="connection refused")


class World:
    """A host with its server, files and clock, and a log of all that was asked of it."""

    def __init__(self, *, patched: bool = False) -> None:
        self.asked: list[str] = []
        self.state = UP
        self.disk = PATCHED if patched else PRISTINE
        self.journal = Journal(
            root="/engine/sglang",
            layers=(LAYER,) if patched else (),
            files=(RECORD,) if patched else (),
        )
        self.proofs: tuple[ProofFile, ...] = (PROOF,) if patched else ()
        self.on_exercise: Callable[[], None] = lambda: None
        self.on_experts: Callable[[], None] = lambda: None
        self.routing: str | None = None
        self.model = {"architectures": ["Glm4MoeForCausalLM"], "num_hidden_layers": 2, "num_experts": 4}
        self.flushes: list[bool] = []
        self.info: dict[str, Any] = {
            "model_path": "/models/tiny",
            "tokenizer_path": "/models/tiny",
            "served_model_name": "tiny",
            "device": "cuda",
            "tp_size": 2,
            "pp_size": 1,
            "dp_size": 1,
            "api_key": "very-secret",
            "watchdog": float("inf"),
            "internal_states": [{"last_gen_throughput": 1.0}],
        }
        self.time = 1796004900.0
        self.gpus: tuple[dict[str, str], ...] = ()
        self.leased: str | None = None
        self.taken_by: str | None = None
        self.settles = True


class FakeFiles:
    def __init__(self, world: World) -> None:
        self._world = world

    def survey(self, request: SurveyRequest) -> Survey:
        world = self._world
        world.asked.append("survey")
        assert MODULE in request.modules
        assert not request.data or world.journal.layers, "the bytes of an unpatched engine are of no use"
        data = {PRISTINE: BEFORE, PATCHED: AFTER}.get(world.disk) if request.data else None
        known = [
            msgspec.structs.replace(one, pristine=BEFORE if request.data else None)
            for one in world.journal.files
        ]
        return Survey(
            host=HostFacts(
                hostname="box",
                user="root",
                uid=0,
                boot_id="boot",
                time=world.time + 0.5,
                cpus=2,
                memory_bytes=1 << 34,
                kernel="6.1",
                state_dir="/var/lib/oeactl/x",
                gpus=world.gpus,
            ),
            engine=EngineFacts(
                package="sglang", root="/engine/sglang", version="0.5.20", python_version="3.11.2"
            ),
            files=(
                FileState(module=MODULE, path=PATH, sha256=world.disk, data=data),
                FileState(module="sglang.absent", path="", missing=True),
            ),
            journal=msgspec.structs.replace(world.journal, files=tuple(known)),
            model=ModelFacts(path="/models/tiny", config=world.model),
        )

    def write(self, transaction: Transaction) -> Written:
        raise AssertionError("bench never patches")

    def recover(self, *, root: str, state_dir: str | None) -> Journal:
        raise AssertionError("bench mends nothing")

    def lease(
        self, *, root: str, state_dir: str | None, operation: str, what: str, holder: Holder, lease_s: float
    ) -> None:
        world = self._world
        if world.taken_by is not None:
            raise Locked(f"{world.taken_by} is at work", where="box")
        world.asked.append("lease")
        world.leased = operation
        assert (root, what, holder) == ("/engine/sglang", "bench", WHO)

    def settle(self, *, root: str, state_dir: str | None, operation: str) -> None:
        assert operation == self._world.leased
        if not self._world.settles:
            raise ConnectionLost("the connection broke")
        self._world.asked.append("settle")
        self._world.leased = None


class FakeServer:
    def __init__(self, world: World) -> None:
        self._world = world

    def state(self, *, health: bool = True) -> ServerState:
        return self._world.state

    def proofs(self) -> tuple[ProofFile, ...]:
        return self._world.proofs

    def check(self, launch: Launch, *, alone: bool = False) -> None:
        raise AssertionError("bench never starts a server")

    def start(self, launch: Launch) -> Process:
        raise AssertionError("bench never starts a server")

    def await_ready(self, process: Process, launch: Launch, progress: Progress) -> Ready:
        raise AssertionError("bench never starts a server")

    def stop(self, progress: Progress, *, foreign: bool = False) -> None:
        raise AssertionError("bench never stops a server")

    def log_lines(self, count: int) -> tuple[str, ...]:
        return ("last words",)

    def follow_log(self, count: int) -> AbstractContextManager[Iterator[str]]:
        raise AssertionError


class FakeEngine:
    def __init__(self, world: World) -> None:
        self._world = world

    def info(self) -> dict[str, Any]:
        return self._world.info

    def complete(
        self, *, prompts: Sequence[Sequence[int]], output_len: int, concurrency: int
    ) -> tuple[Reply, ...]:
        self._world.asked.append(f"complete {len(prompts)}")
        if len(prompts) > 1:
            self._world.on_exercise()
        return (TOKEN if self._world.state.healthy else GONE,) * len(prompts)

    def routed_experts(
        self, *, prompts: Sequence[Sequence[int]], output_len: int
    ) -> tuple[RoutedRequest, ...] | str:
        world = self._world
        world.asked.append(f"experts {len(prompts)}")
        world.on_experts()
        if world.routing is not None:
            return world.routing
        step = [0, 0, *(expert for expert in (1, 2))]  # a dense layer, and one of two experts a token
        tokens = len(prompts[0]) + output_len - 1
        data = array("i", step * tokens).tobytes()
        one = RoutedRequest(
            prompt_tokens=len(prompts[0]), output_tokens=output_len, experts=b64encode(data).decode()
        )
        return (one,) * len(prompts)

    def flush_cache(self) -> bool:
        self._world.asked.append("flush")
        return self._world.flushes.pop(0) if self._world.flushes else True


Happening = Callable[[PointRequest], PointMeasured | None]


class FakeDriver:
    """Every level goes well, unless the test has something happen at it.

    loaded: when the next burst's first request is over, and its last.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.requests: list[PointRequest] = []
        self.happens: dict[tuple[int, str], Happening] = {}
        self.loaded: tuple[float, float] | None = None

    def describe(self) -> DriverRecord:
        return DriverRecord(name="sglang", program="sglang.benchmark.serving")

    def run(self, request: PointRequest, progress: Progress) -> PointMeasured:
        self.requests.append(request)
        self._world.asked.append(f"{request.phase} {request.point.concurrency}")
        self._world.time += 10.0
        happening = self.happens.get((request.point.concurrency, request.phase))
        ended = happening(request) if happening else None
        if self.loaded is not None:
            after = self._world.time
            for done, at in enumerate(self.loaded, start=1):
                self._world.time = at
                progress.update("requests", done=done, total=2)
            self.loaded, self._world.time = None, after
        else:
            progress.update("requests", done=request.requests, total=request.requests)
        if ended is not None:
            return ended
        point = request.point
        if request.phase == "warm-up":
            point = msgspec.structs.replace(point, requests=point.warmup_requests)
        rate = 100.0 * point.concurrency
        return PointMeasured(
            argv=("-m", "client"),
            measurement=a_measurement(point, tokens_per_s=rate),
            requests=some_rows(point),
        )


class FakeClock:
    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> float:
        return self._world.time

    def sleep(self, seconds: float) -> None:
        self._world.time += seconds


class FakeTelemetry:
    """ports.Telemetry of that world: what the test says was heard, at the world's times."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.samples: list[Sample] = []
        self.said: dict[str, str] = {}

    @contextmanager
    def watching(self, own: Sequence[int]) -> Iterator[FakeTelemetry]:
        self._world.asked.append(f"watch {list(own)}")
        yield self
        self._world.asked.append("unwatch")

    def between(self, begin: float, end: float) -> tuple[Sample, ...]:
        return tuple(one for one in self.samples if begin <= one.heard_at <= end)

    def why(self) -> dict[str, str]:
        return self.said


class FakePrompt:
    def confirm(self, question: str) -> bool:
        raise AssertionError("bench asks nothing")


class Told:
    """A Progress that remembers."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


class Bench:
    """One world with all it takes to run a bench in it."""

    def __init__(self, results: Path, *, patched: bool = False) -> None:
        self.world = World(patched=patched)
        self.driver = FakeDriver(self.world)
        self.store = ResultsFolder(results)
        self.told = Told()
        self.spec = ServerSpec(
            argv=("-m", "sglang.launch_server"),
            log="/log",
            env={"OMP_NUM_THREADS": "1", "HF_TOKEN": "very-secret"},
        )
        self.label: str | None = None
        self.sweep: Sweep | None = None
        self.alive: Callable[[int], bool] = lambda pid: True
        self.experts = False
        self.telemetry: FakeTelemetry | None = None

    def site(self) -> Site:
        return Site(
            host=Host(name="box", address="box", engine=EngineSpec(python="/py"), server=self.spec),
            files=FakeFiles(self.world),
            server=FakeServer(self.world),
            engine=FakeEngine(self.world),
            clock=FakeClock(self.world),
            progress=self.told,
            prompt=FakePrompt(),
            holder=WHO,
            alive=self.alive,
            telemetry=self.telemetry,
        )

    def run(self, *concurrencies: int) -> Benched:
        return self._bench(self.sweep or sweep(*concurrencies), None)

    def resume(self) -> Benched:
        found = self.kept()
        return self._bench(found.plan.sweep, found)

    def _bench(self, wanted: Sweep, found: Run | None) -> Benched:
        order = Order(
            sweep=wanted,
            token="1f3a9c2e",
            modules=(MODULE,),
            oeactl_version="0.1.0",
            label=self.label,
            sending=Sending(experts=self.experts),
            found=found,
        )
        return bench(self.site(), self.driver, self.store, order)

    def kept(self) -> Run:
        return self.store.load("last")


def sweep(*concurrencies: int) -> Sweep:
    return make_sweep(concurrencies or (1, 4), input_len=64, output_len=32, seed=42)
