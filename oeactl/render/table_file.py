"""Results as a flat table for other programs: one row a level of a trial.

Owns: the columns, with units in their names. Refuses: to leave out what is void; a column says so.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from oeactl.core.load import Distribution
from oeactl.core.run import PointRecord, Run, Trial


def rows(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """One mapping a level, all with the same keys; None where something was not measured."""
    return [_row(run, trial, point) for run in runs for trial in run.trials for point in trial.points]


def csv_text(runs: Iterable[Run]) -> str:
    """RFC 4180 with a header line; empty for what was not measured. Only the header's line without levels."""
    made = rows(runs)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(made[0]) if made else ["run_id"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(made)
    return text.getvalue()


def _row(run: Run, trial: Trial, point: PointRecord) -> dict[str, Any]:
    measured = point.measurement
    recipes = [[recipe.recipe, recipe.revision, recipe.parameters] for recipe in trial.recipes]
    return {
        "run_id": run.plan.run_id,
        "what": run.plan.what,
        "host": trial.host.name,
        "engine_version": trial.engine.version,
        "model": trial.model.served_name or trial.model.path,
        "gpus": trial.server.gpus,
        "driver": trial.driver.name,
        "trial": trial.name,
        "arm": trial.arm,
        "pair": trial.pair,
        "order": trial.order,
        "start": trial.start,
        "recipes": json.dumps(recipes, sort_keys=True) if recipes else "",
        "started_at": point.started_at.isoformat(),
        "concurrency": point.point.concurrency,
        "input_len": point.point.input_len,
        "output_len": point.point.output_len,
        "requests": point.point.requests,
        "seed": point.point.seed,
        "workload_sha256": point.workload_sha256,
        "valid": point.valid,
        "reasons": "; ".join(point.reasons),
        "completed": measured.completed if measured else None,
        "output_tokens": measured.output_tokens if measured else None,
        "duration_s": measured.duration_s if measured else None,
        "output_tokens_per_s": measured.output_tokens_per_s if measured else None,
        "output_tokens_per_s_per_gpu": point.output_tokens_per_s_per_gpu,
        **_spread("ttft_ms", measured.ttft_ms if measured else None),
        **_spread("tpot_ms", measured.tpot_ms if measured else None),
        **_spread("e2e_ms", measured.e2e_ms if measured else None),
    }


def _spread(name: str, found: Distribution | None) -> dict[str, float | None]:
    return {
        f"{name}_mean": found.mean if found else None,
        f"{name}_median": found.median if found else None,
        f"{name}_p99": found.p99 if found else None,
    }
