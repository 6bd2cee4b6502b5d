"""A host to compare builds on: the world of ``site_world.py``, with an engine that can be measured.

``world.rate`` says how fast a build is at a start; ``refuses_launch`` and ``dies`` make arms fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from oeactl.core.burst import PointMeasured, PointRequest
from oeactl.core.caches import CacheState
from oeactl.core.host import Launch, Layer, Process, Reply
from oeactl.core.load import Point, make_sweep
from oeactl.core.provenance import DriverRecord
from oeactl.core.run import AppliedRecipe, Run
from oeactl.edges.store import ResultsFolder
from oeactl.flows import experiment
from oeactl.flows.build import Wanted
from oeactl.flows.experiment import Concluded
from oeactl.flows.planning import ArmOrder, Order, Prepared, prepare, prepare_again
from oeactl.ports import Failed, Progress, Ready
from tests.support.bench_world import TOKEN
from tests.support.levels import a_measurement, some_rows
from tests.support.site_world import FakeEngine, FakeServer, Operator, World, a_recipe

NOISE = (0.004, -0.006, 0.002, 0.005, -0.003, 0.001, -0.002, 0.003, -0.004, 0.006)
SIZE = {"size": "4"}


class ExperimentWorld(World):
    """starts: servers begun so far. texts: what is answered. rate: tok/s by the level. log: of the server.

    fails: why a level of a build cannot be measured though its server lives. kernels: what the compilation
    caches hold; a build's own are compiled at its first start, which is slower by ``penalty`` (1: nothing
    is compiled). wiped: how often the caches were emptied.
    """

    def __init__(self, *, running: bool = True) -> None:
        super().__init__(running=running)
        self.starts = 0
        self.launches: list[Launch] = []
        self.texts: Callable[[Point], tuple[str, ...]] | None = None
        self.log: tuple[str, ...] = ("all is well",)
        self.info: dict[str, Any] = {"model_path": "/models/tiny", "served_model_name": "tiny"}
        self.factor: Callable[[tuple[Layer, ...]], float] = lambda layers: 1.2 if layers else 1.0
        self.noise: Callable[[int], float] = lambda start: NOISE[start * 7 % len(NOISE)]
        self.refuses_launch: Callable[[Launch], bool] = lambda launch: False
        self.dies: Callable[[tuple[Layer, ...], Point], bool] = lambda layers, point: False
        self.fails: Callable[[tuple[Layer, ...], Point], str | None] = lambda layers, point: None
        self.kernels: set[str] = set()
        self.penalty = 1.0
        self.slowed = 1.0
        self.wiped = 0

    def compile(self, layers: tuple[Layer, ...]) -> None:
        """What a start finds in the caches, or must make: 100 kernels of the engine, 40 of a patched one."""
        if self.penalty == 1.0:
            return
        needed = {f"engine-{n}" for n in range(100)}
        needed |= {f"{one.digest}-{n}" for one in layers for n in range(40)}
        self.slowed = 1.0 if needed <= self.kernels else self.penalty
        self.kernels |= needed

    def rate(self, point: Point) -> float:
        assert self.running is not None
        rate = 100.0 * point.concurrency * self.factor(self.running.layers) * (1 + self.noise(self.starts))
        return rate * self.slowed


class MeasuredEngine(FakeEngine):
    def __init__(self, world: ExperimentWorld) -> None:
        super().__init__(world)
        self._here = world

    def info(self) -> dict[str, Any]:
        info = self._here.step("info", lambda: self._here.info)
        assert isinstance(info, dict)
        return info

    def complete(
        self, *, prompts: Sequence[Sequence[int]], output_len: int, concurrency: int
    ) -> tuple[Reply, ...]:
        replies = super().complete(prompts=prompts, output_len=output_len, concurrency=concurrency)
        return tuple(TOKEN if reply.status == 200 else reply for reply in replies)

    def flush_cache(self) -> bool:
        return True


class LaunchedServer(FakeServer):
    def __init__(self, world: ExperimentWorld) -> None:
        super().__init__(world)
        self._here = world

    def start(self, launch: Launch) -> Process:
        self._here.launches.append(launch)
        self._here.starts += 1
        process = super().start(launch)
        if self._here.running is not None:
            self._here.compile(self._here.running.layers)
        return process

    def await_ready(self, process: Process, launch: Launch, progress: Progress) -> Ready | Failed:
        if self._here.refuses_launch(launch):
            self._here.running = None
            error = "error: unrecognized arguments: --nonsense"
            return Failed(why="the server's process ended", first_error=error, tail=("usage:", error))
        return super().await_ready(process, launch, progress)

    def log_lines(self, count: int) -> tuple[str, ...]:
        return self._here.log[-count:]


class WorldCaches:
    def __init__(self, world: ExperimentWorld) -> None:
        self._world = world

    def look(self, env: Mapping[str, str]) -> tuple[CacheState, ...]:
        files = len(self._world.kernels)
        return (CacheState(name="triton", path="/c/triton", files=files, bytes=1000 * files),)

    def wipe(self, env: Mapping[str, str]) -> tuple[CacheState, ...]:
        self._world.kernels.clear()
        self._world.wiped += 1
        return self.look(env)


class MeasuringDriver:
    def __init__(self, world: ExperimentWorld) -> None:
        self._world = world
        self.requests: list[PointRequest] = []

    def describe(self) -> DriverRecord:
        return DriverRecord(name="sglang", program="sglang.benchmark.serving")

    def run(self, request: PointRequest, progress: Progress) -> PointMeasured:
        self.requests.append(request)
        measured = self._world.step(request.phase, lambda: self._measured(request))
        assert isinstance(measured, PointMeasured)
        return measured

    def _measured(self, request: PointRequest) -> PointMeasured:
        world, point = self._world, request.point
        world.time += 10.0
        if world.running is None or world.dies(world.running.layers, point):
            world.running = None
            return PointMeasured(argv=("-m", "client"), failure="connection refused")
        if request.phase == "warm-up":
            point = msgspec.structs.replace(point, requests=point.warmup_requests)
        failure = world.fails(world.running.layers, point)
        if failure is not None:
            return PointMeasured(argv=("-m", "client"), failure=failure, tail=("waiting", failure))
        texts = world.texts(point) if world.texts else ()
        return PointMeasured(
            argv=("-m", "client"),
            measurement=a_measurement(point, tokens_per_s=world.rate(point)),
            requests=some_rows(point, **({"generated_texts": texts} if texts else {})),
        )


class Experimenter(Operator):
    """Somebody who compares builds on this world."""

    world: ExperimentWorld

    def __init__(self, results: Path, *, running: bool = True) -> None:
        super().__init__(ExperimentWorld(running=running))
        self.site = replace(
            self.site,
            server=LaunchedServer(self.world),
            engine=MeasuredEngine(self.world),
            caches=WorldCaches(self.world),
        )
        self.driver = MeasuringDriver(self.world)
        self.store = ResultsFolder(results)
        self.tokens = 0

    def order(self, *arms: ArmOrder, **changes: Any) -> Order:
        self.tokens += 1
        order = Order(
            what="ab",
            arms=arms or (ArmOrder(), patched_arm()),
            sweep=make_sweep((4, 16), input_len=64, output_len=32, seed=42),
            pairs=3,
            seed=11,
            token=f"{self.tokens:08x}",
            oeactl_version="0.1.0",
            warm=False,
        )
        return replace(order, **changes)

    def prepare(self, *arms: ArmOrder, only: bool = False, **changes: Any) -> Prepared:
        return prepare(self.site, self.driver, self.store, self.order(*arms, **changes), only=only)

    def run(self, *arms: ArmOrder, **changes: Any) -> Concluded:
        prepared = self.prepare(*arms, **changes)
        return experiment.conduct(self.site, self.driver, self.store, prepared)

    def resume(self, name: str = "last") -> Concluded:
        found = self.store.load(name)
        prepared = prepare_again(self.site, found.plan, wanted_again, ())
        return experiment.resume(self.site, self.driver, self.store, prepared, found)

    def kept(self) -> Run:
        return self.store.load("last")


def patched_arm(size: int = 4, **more: Any) -> ArmOrder:
    return ArmOrder(wanted=(Wanted(recipe=a_recipe(), sets={"size": str(size)}),), **more)


def wanted_again(recipe: AppliedRecipe) -> Wanted:
    assert recipe.recipe == a_recipe().id
    return Wanted(recipe=a_recipe(), sets={name: str(value) for name, value in recipe.parameters.items()})
