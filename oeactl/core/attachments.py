"""Evaluations by other tools, read strictly: lm-eval, SGLang's gsm8k scripts, and oeactl's own quality.

Owns: which forms are known, and the figures in them. Refuses: a file that is not wholly of one form, a figure
that is not a number, several results in one file, and files (the bytes come in).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NoReturn

from oeactl.core.quality import Agreement
from oeactl.core.recording import Comparison
from oeactl.core.results import moment, parse
from oeactl.core.run import Attachment, Metric, RawFile, Run
from oeactl.errors import UsageError

Tool = Literal["lm-eval", "sglang gsm8k", "oeactl quality"]

_FORMS = (
    "lm-eval's results_*.json, SGLang's bench_sglang.py or few_shot_gsm8k output, oeactl's against-*.json"
)
_PRINTED = re.compile(r"^(Accuracy|Invalid): (\d+(?:\.\d+)?)$", re.MULTILINE)


def read_attachment(data: bytes, *, name: str, run: Run, at: float) -> Attachment:
    """Read a tool's file for ``run``. Raises UsageError: no form we know, or an answer for another build."""
    tool, metrics, said = _read(data, name, run)
    return Attachment(
        run_id=run.plan.run_id,
        attached_at=moment(at),
        tool=tool,
        file=name,
        original=RawFile(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data)),
        metrics=metrics,
        said=said,
    )


def _read(data: bytes, name: str, run: Run) -> tuple[Tool, tuple[Metric, ...], str]:
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        raise UsageError("this is no text", where=name, hint=_FORMS) from problem
    body = _json(text)
    if body is None:
        return "sglang gsm8k", _printed(text, name), ""
    if body.get("kind") == "comparison":
        return "oeactl quality", *_comparison(data, name, run)
    if isinstance(body.get("results"), dict):
        return "lm-eval", tuple(_lm_eval(body, name)), ""
    if body.get("task") == "gsm8k" and "accuracy" in body:
        samples = body.get("num_requests")
        accuracy = Metric(
            task="gsm8k",
            metric="accuracy",
            value=_share(body["accuracy"], name),
            samples=samples if isinstance(samples, int) else None,
        )
        return "sglang gsm8k", (accuracy,), ""
    raise UsageError("this is not a result of a tool that is known", where=name, hint=_FORMS)


def _json(text: str) -> dict[str, Any] | None:
    """The one JSON object in the text; None where it is not JSON. Raises UsageError for several in lines."""
    try:
        body = json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as problem:
        lines = [line for line in text.splitlines() if line.strip()]
        if problem.msg == "Extra data" and all(line.startswith("{") for line in lines):
            raise UsageError(f"{len(lines)} results are in this file; attach one of them") from problem
        if text.lstrip().startswith(("{", "[")):
            raise UsageError(f"this is not whole JSON: {problem}") from problem
        return None
    return body if isinstance(body, dict) else {}


def _no_number(name: str) -> NoReturn:
    raise UsageError(f"this holds {name}, which is no figure")


def _lm_eval(body: Mapping[str, Any], name: str) -> Iterator[Metric]:
    """``results``: task -> {"metric,filter": value, "metric_stderr,filter": value}, and ``n-samples``."""
    samples = body.get("n-samples")
    found = False
    for task, figures in sorted(body["results"].items()):
        if not isinstance(figures, dict):
            raise UsageError(f"the results of {task} are none", where=name, hint=_FORMS)
        effective = (samples or {}).get(task, {}).get("effective") if isinstance(samples, dict) else None
        for key, value in sorted(figures.items()):
            metric, comma, kind = key.partition(",")
            if not comma or metric.endswith("_stderr"):
                continue
            found = True
            stderr = figures.get(f"{metric}_stderr,{kind}")
            yield Metric(
                task=task,
                metric=metric if kind in ("", "none") else key,
                value=_number(value, f"{name}: {task} {key}"),
                stderr=None if stderr in (None, "N/A") else _number(stderr, f"{name}: {task} {key}"),
                samples=effective if isinstance(effective, int) else None,
            )
    if not found:
        raise UsageError("there is no figure in these results", where=name, hint=_FORMS)


def _printed(text: str, name: str) -> tuple[Metric, ...]:
    """What ``python -m sglang.test.few_shot_gsm8k`` prints, kept in a file."""
    found = _PRINTED.findall(text)
    if [label for label, _ in found] != ["Accuracy", "Invalid"]:
        raise UsageError(
            "this is not the output of one gsm8k run" if found else "this is not a result of a known tool",
            where=name,
            hint=_FORMS,
        )
    return tuple(
        Metric(task="gsm8k", metric=label.lower(), value=_share(float(value), name)) for label, value in found
    )


def _comparison(data: bytes, name: str, run: Run) -> tuple[tuple[Metric, ...], str]:
    try:
        comparison = parse(data, Comparison)
    except ValueError as problem:
        raise UsageError(str(problem), where=name) from problem
    ours = {tuple(recipe.digest for recipe in trial.recipes) for trial in run.trials}
    if tuple(recipe.digest for recipe in comparison.recipes) not in ours:
        raise UsageError(
            "these answers are of another build than this run",
            where=name,
            hint="attach the comparison whose second build is the one that was measured",
        )
    metrics = [
        Metric(task=f"{one.condition} {whose}", metric=metric, value=float(value))
        for one in comparison.conditions
        for whose, agreement in (("floor", one.floor), ("against", one.against))
        for metric, value in _figures(agreement)
    ]
    return tuple(metrics), f"{comparison.verdict} (against {comparison.baseline_build})"


def _figures(agreement: Agreement) -> tuple[tuple[str, float], ...]:
    return (
        ("equal_answers", agreement.equal_answers),
        ("equal_tokens", agreement.equal_tokens),
        ("kl_nats", agreement.kl),
    )


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"{value!r} is no figure", where=where)
    return float(value)


def _share(value: Any, where: str) -> float:
    number = _number(value, where)
    if not 0 <= number <= 1:
        raise UsageError(f"an accuracy of {number:g} is not between 0 and 1", where=where)
    return number
