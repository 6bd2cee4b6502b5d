"""Runs as rich as a report can be given, made up: many levels, failures, experts, a patch, an evaluation."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from oeactl.core.change import Change, ChangedFile, RecipeCopy
from oeactl.core.design import arrange, sweeps, warm_sweep
from oeactl.core.experiment import Design, Failure
from oeactl.core.load import Distribution, Point, make_sweep
from oeactl.core.metrics import Spread
from oeactl.core.provenance import LaunchRecord
from oeactl.core.results import analyse, moment
from oeactl.core.routing import ExpertsSeen
from oeactl.core.run import Arm, Attachment, Metric, Plan, PlannedTrial, PointRecord, RawFile, Run, Trial
from oeactl.core.telemetry import CardLoad, Watched
from tests.support.runs import AT, OEA, RUN_ID, a_plan, a_record, a_trial

LEVELS = (1, 4, 16, 64, 128, 256)
SWEEP = make_sweep(LEVELS, input_len=512, output_len=256, seed=42)
DIFF = """\
diff --git a/sglang/srt/layers/moe/topk.py b/sglang/srt/layers/moe/topk.py
--- a/sglang/srt/layers/moe/topk.py
+++ b/sglang/srt/layers/moe/topk.py
@@ -10,4 +10,7 @@
 def select(logits, k):
-    return logits.topk(k)
+    # oeactl: begin oea
+    kept = elect(logits, k0=4)  # <script>alert("not run")</script>
+    return logits.masked_fill(~kept, -inf).topk(k)
+    # oeactl: end oea
"""
LAUNCH = LaunchRecord(
    manager="process",
    python="/root/venv/bin/python",
    argv=(
        "-m",
        "sglang.launch_server",
        "--model-path",
        "zai-org/GLM-4.5-Air",
        "--tp",
        "8",
        "--port",
        "30000",
    ),
    cwd="/root",
)


def a_rich_comparison(arms: int = 2, *, pairs: int = 6, failing: bool = True) -> Run:
    """Arm B is 7 % faster at small loads and 19 % at large ones; restarts vary by 1 %, with a slow drift."""
    names = "ABCDEFGH"[:arms]
    rng = random.Random(3)
    design = Design(
        pairs=pairs,
        seed=7,
        margin=0.03,
        alpha=0.05,
        sweeps=sweeps(SWEEP, pairs, rng),
        warm_sweep=warm_sweep(SWEEP, rng),
        known_sd=0.011,
    )
    slots = arrange(tuple(names), pairs, rng)
    warm = [
        PlannedTrial(name=f"000-{name}", arm=name, order=at - arms, start="fresh")
        for at, name in enumerate(names, 1)
    ]
    measured = [
        PlannedTrial(name=s.name, arm=s.arm, order=s.order, start="fresh", pair=s.pair, block=s.block)
        for s in slots
    ]
    plan = a_plan(
        what="ab" if arms == 2 else "scan",
        label="ab-oea",
        host="gpu-7",
        sweep=SWEEP,
        arms=tuple(
            Arm(
                name=name,
                recipes=() if at == 0 else (msgspec.structs.replace(OEA, parameters={"k0": 5 - at}),),
            )
            for at, name in enumerate(names)
        ),
        trials=(*warm, *measured),
        design=design,
    )
    trials = [_trial(plan, planned, rng) for planned in plan.trials]
    if failing:
        lost = next(t for t in reversed(trials) if t.arm == "B")
        failure = Failure(
            kind="lost under load",
            what="the server did not survive level 256",
            first_error="torch.OutOfMemoryError: CUDA out of memory <tried 2 GiB>",
            tail=("Traceback (most recent call last):", "torch.OutOfMemoryError: CUDA out of memory"),
        )
        broken = msgspec.structs.replace(lost, outcome="server_lost", points=lost.points[:2], failure=failure)
        trials = [broken if t is lost else t for t in trials]
    return Run(
        path="/results/runs/2026/" + RUN_ID,
        plan=plan,
        trials=tuple(trials),
        analysis=analyse(plan, tuple(trials), AT),
        attachments=(an_evaluation(),),
        changes=tuple(a_change(arm.name) for arm in plan.arms[1:]),
    )


def a_change(arm: str = "B", **changes: Any) -> Change:
    change = Change(
        run_id=RUN_ID,
        arm=arm,
        recipes=(
            RecipeCopy(
                recipe="oea",
                revision=1,
                title="Opportunistic expert activation",
                summary="Each token votes for its best k0 experts, and the gate chooses among the elected.",
                url="https://arxiv.org/abs/2511.02237",
                computes="other",
                files={"recipe.yaml": b"id: oea\n"},
            ),
        ),
        files=(
            ChangedFile(
                path="sglang/srt/layers/moe/topk.py", before_sha256="ab" * 32, after_sha256="cd" * 32
            ),
        ),
        diff=DIFF,
    )
    return msgspec.structs.replace(change, **changes)


def an_evaluation() -> Attachment:
    return Attachment(
        run_id=RUN_ID,
        attached_at=moment(AT),
        tool="lm-eval",
        file="results.json",
        original=RawFile(sha256="aa" * 32, bytes=10),
        metrics=(
            Metric(
                task="gsm8k", metric="exact_match,strict-match", value=0.9211, stderr=0.0074, samples=1319
            ),
        ),
    )


def a_rich_bench() -> Run:
    """One start of a patched server, with the experts it used."""
    plan = a_plan(sweep=SWEEP, label="oea", host="gpu-7")
    rng = random.Random(4)
    trial = _trial(plan, plan.trials[0], rng)
    return Run(
        path="/results/runs/2026/" + RUN_ID,
        plan=plan,
        trials=(trial,),
        analysis=analyse(plan, (trial,), AT),
        changes=(a_change("A"),),
    )


def _trial(plan: Plan, planned: PlannedTrial, rng: random.Random) -> Trial:
    drift = 1 - 0.003 * planned.order + rng.gauss(0, 0.008)
    arm = next(arm for arm in plan.arms if arm.name == planned.arm)
    sweep = plan.design.sweeps[planned.pair - 1] if plan.design and planned.pair else plan.sweep
    trial = a_trial(
        name=planned.name,
        arm=planned.arm,
        order=planned.order,
        pair=planned.pair,
        block=planned.block,
        start=planned.start,
        started_at=moment(AT + 700 * planned.order),
        ready_s=93.0 + rng.gauss(0, 2),
        recipes=arm.recipes,
        points=tuple(
            _point(at, point, bool(arm.recipes), drift + rng.gauss(0, 0.004), plan.design is None)
            for at, point in enumerate(sweep.points, 1)
        ),
    )
    args = {**trial.server.args, "model_path": "zai-org/GLM-4.5-Air", "max_running_requests": 256}
    server = msgspec.structs.replace(trial.server, launch=LAUNCH, gpus=8, args=args)
    gpu = {
        "name": "NVIDIA RTX PRO 6000",
        "uuid": "GPU-0",
        "driver_version": "580.82.07",
        "power.limit": "600.00 W",
    }
    host = msgspec.structs.replace(trial.host, name="gpu-7", hostname="gpu-7", cpus=128, gpus=(gpu,) * 8)
    model = msgspec.structs.replace(trial.model, path="zai-org/GLM-4.5-Air", served_name="GLM-4.5-Air")
    return msgspec.structs.replace(trial, server=server, host=host, model=model)


def _point(index: int, point: Point, patched: bool, factor: float, experts: bool) -> PointRecord:
    n = point.concurrency
    tpot = (9.5 + 0.105 * n) / factor / (1.07 + 0.12 * n / 256 if patched else 1)
    rate = n * 1000 / (tpot + 180 / 256)
    record = a_record(index, point, tokens_per_s=rate)
    assert record.measurement is not None
    measured = msgspec.structs.replace(
        record.measurement,
        tpot_ms=_around(tpot),
        itl_ms=_around(tpot),
        ttft_ms=_around(60 + 2.1 * n),
        e2e_ms=_around(tpot * 256),
    )
    seen = None
    if experts:
        distinct = 128 * (1 - (1 - 8 / 128) ** n) * (0.62 if patched and n > 1 else 1)
        seen = ExpertsSeen(
            outcome="measured",
            requests=n,
            decode_steps=16,
            top_k=8,
            experts=128,
            distinct_mean=round(distinct, 2),
        )
    return msgspec.structs.replace(
        record,
        measurement=measured,
        output_tokens_per_s_per_gpu=rate / 8,
        experts=seen,
        watched=_watched(factor),
    )


def _watched(factor: float) -> Watched:
    """A host whose cards grow warm and slow as the run goes on."""
    cards = tuple(
        CardLoad(
            index=at,
            uuid=f"GPU-{at}",
            used=True,
            samples=40,
            sm_mhz=Spread(min=1890.0 * factor, mean=2010.0 * factor, max=2100.0 * factor),
            temperature_c=Spread(min=41 / factor, mean=58 / factor + at, max=66 / factor + at),
        )
        for at in range(8)
    )
    return Watched(samples=40, seconds=39.0, cards=cards)


def _around(mean: float) -> Distribution:
    return Distribution(mean=mean, median=mean, std=mean / 20, p99=mean * 1.4, p90=mean * 1.1, p95=mean * 1.2)
