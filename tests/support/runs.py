"""A run made up: one attached trial of a patched server at two levels, one of them void."""

from __future__ import annotations

from typing import Any

import msgspec

from oeactl.core.evidence import Activation, Target
from oeactl.core.gates import failures, judge
from oeactl.core.load import Point, make_sweep
from oeactl.core.provenance import (
    DriverRecord,
    EngineRecord,
    HostRecord,
    ModelRecord,
    ProofRecord,
    ServerRecord,
)
from oeactl.core.results import analyse, moment
from oeactl.core.routing import ExpertsSeen, LayerSeen
from oeactl.core.run import AppliedRecipe, Arm, Plan, PlannedTrial, PointRecord, RawFile, Run, Trial, WarmUp
from tests.support.levels import LEADER, WORKER, a_measurement, a_watched, some_evidence, some_rows

AT = 1796004900.25
RUN_ID = "20261130T021500Z-oea-1f3a9c2e"
SWEEP = make_sweep((4, 16), input_len=64, output_len=32, seed=42)
OEA = AppliedRecipe(recipe="oea", revision=1, parameters={"k0": 2, "min_tokens": 2}, digest="d1" * 32)
TARGET = Target(
    module="sglang.srt.layers.moe.topk",
    path="/engine/sglang/srt/layers/moe/topk.py",
    expected_sha256="ab" * 32,
    before_sha256="ab" * 32,
    after_sha256="ab" * 32,
)


def a_plan(**changes: Any) -> Plan:
    plan = Plan(
        run_id=RUN_ID,
        what="bench",
        label="oea",
        created_at=moment(AT),
        oeactl_version="0.1.0",
        host="@local",
        driver="sglang",
        sweep=SWEEP,
        arms=(Arm(name="A", recipes=(OEA,)),),
        trials=(PlannedTrial(name="001-A", arm="A", order=1, start="attached"),),
    )
    return msgspec.structs.replace(plan, **changes)


def a_record(index: int, point: Point, *, tokens_per_s: float = 400.0, fault: str = "") -> PointRecord:
    measurement = a_measurement(point, tokens_per_s=tokens_per_s)
    evidence = some_evidence(
        point,
        measurement=None if fault else measurement,
        requests=None if fault else some_rows(point),
        failure=fault or None,
        targets=(TARGET,),
        gpus=2,
        watched=None if fault else a_watched(),
    )
    gates = judge(evidence)
    return PointRecord(
        index=index,
        point=point,
        started_at=moment(AT + 60 * index),
        ended_at=moment(AT + 60 * index + 40),
        argv=("-m", "sglang.benchmark.serving", "--output-file", "{out}"),
        workload_sha256="cd" * 32,
        valid=not failures(gates),
        reasons=failures(gates),
        gates=gates,
        measurement=evidence.measurement,
        output_tokens_per_s_per_gpu=None if fault else tokens_per_s / 2,
        warm_up=WarmUp(
            requests=point.warmup_requests,
            completed=point.warmup_requests,
            duration_s=2.5,
            output_tokens_per_s=180.0,
            flushed=True,
            flush_attempts=2,
        ),
        raw=None if fault else RawFile(sha256="ef" * 32, bytes=12345),
        tail=("ConnectionRefusedError: gone",) if fault else (),
        experts=None if fault else some_experts(point.concurrency),
        watched=evidence.watched,
        watched_raw=None if fault else RawFile(sha256="ab" * 32, bytes=4321),
    )


def some_experts(requests: int) -> ExpertsSeen:
    return ExpertsSeen(
        outcome="measured",
        requests=requests,
        decode_steps=16,
        top_k=8,
        experts=128,
        distinct_mean=9.75,
        layers=(
            LayerSeen(layer=1, distinct_mean=10.5, distinct_min=8, distinct_max=13),
            LayerSeen(layer=2, distinct_mean=9.0, distinct_min=8, distinct_max=11),
        ),
        counts_sha256="fe" * 32,
    )


def a_trial(**changes: Any) -> Trial:
    trial = Trial(
        run_id=RUN_ID,
        name="001-A",
        arm="A",
        order=1,
        start="attached",
        started_at=moment(AT),
        ended_at=moment(AT + 180),
        outcome="completed",
        clock_offset_s=0.012,
        host=HostRecord(
            name="@local",
            hostname="box",
            kernel="6.1.0",
            cpus=2,
            memory_bytes=25_000_000_000,
            boot_id="boot",
            gpus=({"name": "GPU", "uuid": "GPU-0", "driver_version": "580.1"},),
        ),
        engine=EngineRecord(
            package="sglang",
            root="/engine/sglang",
            version="0.5.20",
            python_version="3.11.2",
            editable=False,
            git_commit=None,
            git_dirty_sha256=None,
        ),
        model=ModelRecord(
            path="/models/tiny",
            served_name="tiny",
            architectures=("Glm4MoeForCausalLM",),
            config_sha256="12" * 32,
        ),
        server=ServerRecord(
            url="http://127.0.0.1:30000",
            pid=LEADER.pid,
            start_ticks=LEADER.start_ticks,
            started_at=moment(AT - 600),
            args={"tp_size": 2, "api_key": None},
            environment={"OMP_NUM_THREADS": "1"},
            gpus=2,
        ),
        driver=DriverRecord(
            name="sglang",
            program="sglang.benchmark.serving",
            version="0.5.20",
            flags=("--seed",),
            duration_includes="the client's final GET of the server's information",
        ),
        recipes=(OEA,),
        targets=(TARGET,),
        activations=(
            Activation(
                recipe="oea",
                digest=OEA.digest,
                outcome="pass",
                reason="every worker took it",
                kinds=("eager",),
            ),
        ),
        proofs=(
            ProofRecord(
                kind="eager",
                recipe="oea",
                digest=OEA.digest,
                file=TARGET.path,
                pid=WORKER.pid,
                start_ticks=WORKER.start_ticks,
                mode="DECODE",
                layer=1,
                rows=4,
            ),
        ),
        points=(
            a_record(1, SWEEP.points[0]),
            a_record(2, SWEEP.points[1], fault="none of 160 requests succeeded"),
        ),
    )
    return msgspec.structs.replace(trial, **changes)


def a_run(*, path: str = "/results/run", **changes: Any) -> Run:
    plan, trial = a_plan(), a_trial(**changes)
    return Run(path=path, plan=plan, trials=(trial,), analysis=analyse(plan, (trial,), AT + 200))
