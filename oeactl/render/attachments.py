"""What other tools said of the same build, in lines beside a run.

Owns: their words. Refuses: to compare them.
"""

from __future__ import annotations

from collections.abc import Iterator

from oeactl.core.run import Attachment, Metric, Run


def attachment_lines(run: Run) -> Iterator[str]:
    """A line a figure; a patched run without recorded quality says so, because speed alone says half."""
    for one in run.attachments:
        if one.tool == "oeactl quality":
            yield f"quality: {one.said}; {_agreement(one)}"
        else:
            yield from (f"{one.tool}, {one.file}: {_figure(metric)}" for metric in one.metrics)
    patched = any(trial.recipes for trial in run.trials)
    if patched and not any(one.tool == "oeactl quality" for one in run.attachments):
        yield "quality: not measured (oeactl quality --help says how; results attach keeps it here)"


def _figure(metric: Metric) -> str:
    spread = "" if metric.stderr is None else f" ± {metric.stderr:.4f}"
    count = "" if metric.samples is None else f" (n = {metric.samples})"
    return f"{metric.task} {metric.metric} {metric.value:.4f}{spread}{count}"


def _agreement(attachment: Attachment) -> str:
    """Equal tokens under each condition, the floor beside them."""
    equal = {one.task: one.value for one in attachment.metrics if one.metric == "equal_tokens"}
    pairs = [
        (name.removesuffix(" against"), value, equal.get(name.replace(" against", " floor")))
        for name, value in equal.items()
        if name.endswith(" against")
    ]
    return ", ".join(
        f"{name.replace('_', ' ')} {value:.1%} of tokens equal (floor {floor or 0:.1%})"
        for name, value, floor in pairs
    )
