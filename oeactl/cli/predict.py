"""``oeactl predict``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import Call, command

if TYPE_CHECKING:
    from oeactl.core.routing import Usage

ExpertsOption = Annotated[
    int | None, typer.Option("--experts", min=1, metavar="N", help="Routed experts a layer.")
]
TopKOption = Annotated[int | None, typer.Option("--top-k", min=1, metavar="K", help="Experts a token uses.")]
K0Option = Annotated[
    str | None, typer.Option("--k0", metavar="A..B", help="OEA's k0: 4, or 1..8, or 2,4. Else 1 to top-k.")
]
BatchOption = Annotated[
    str,
    typer.Option("--batch", metavar="A..B", help="Tokens a decode step: 64, or 1..512 (doubling), or 16,48."),
]
HardwareOption = Annotated[
    str | None,
    typer.Option("--hardware", metavar="NAME", help="An entry that comes with oeactl, or a YAML file."),
]
BaselineOption = Annotated[
    float | None,
    typer.Option("--baseline", min=0.001, metavar="TOKS", help="Output tok/s measured at that one --batch."),
]
FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="RUN", help="Use the experts that a pristine bench --experts recorded."),
]


@command(
    "oeactl predict --experts 256 --top-k 8 --k0 1..8 --batch 1..512",
    "oeactl predict --hardware glm-5-nvfp4-8x-rtx-pro-6000 --k0 4 --batch 64 --baseline 1200",
    "oeactl predict --from last --k0 2 --batch 16",
)
def predict(
    call: Call,
    experts: ExpertsOption = None,
    top_k: TopKOption = None,
    k0: K0Option = None,
    batch: BatchOption = "1..512",
    hardware: HardwareOption = None,
    baseline: BaselineOption = None,
    source: FromOption = None,
) -> None:
    """Predict how many distinct experts a decode step reads, before and after OEA, and the time of it.

    Uniform routing unless --from names a recording. Asks no host.
    """
    import msgspec

    from oeactl.core.experts import UNIFORM, parse_counts
    from oeactl.core.experts import predict as work_out
    from oeactl.edges.hardware import hardware_names, read_hardware
    from oeactl.errors import UsageError
    from oeactl.render.experts import prediction_view

    entry = read_hardware(hardware) if hardware is not None else None
    run, usage = _recorded(call, source) if source is not None else ("", None)
    experts = _agreed(
        "experts a layer",
        {
            "--experts": experts,
            "--from": len(usage.counts[0]) if usage else None,
            "--hardware": entry.experts if entry else None,
        },
    )
    top_k = _agreed(
        "experts a token",
        {
            "--top-k": top_k,
            "--from": usage.top_k if usage else None,
            "--hardware": entry.top_k if entry else None,
        },
    )
    if experts is None or top_k is None:
        raise UsageError(
            "how many experts a layer has, and a token uses, is not known",
            hint=f"--experts 256 --top-k 8, or --hardware {hardware_names()[0]}",
        )
    prediction = work_out(
        experts=experts,
        top_k=top_k,
        k0=parse_counts(k0, "--k0") if k0 is not None else range(1, top_k + 1),
        batches=parse_counts(batch, "--batch", doubling=True),
        shares=usage.shares() if usage else (),
        source=f"recorded in {run}" if usage else UNIFORM,
        hardware=entry,
        baseline_tokens_per_s=baseline,
    )
    call.emit(msgspec.to_builtins(prediction), lambda: prediction_view(prediction, width=call.width))


def _agreed(what: str, said: Mapping[str, int | None]) -> int | None:
    """The one figure that all who name it name; None where nobody does. Raises UsageError."""
    from oeactl.errors import UsageError

    named = {where: figure for where, figure in said.items() if figure is not None}
    if len(set(named.values())) > 1:
        raise UsageError(
            f"these are of different models: {', '.join(f'{k} has {v}' for k, v in named.items())} {what}",
            hint="name one of them, or a hardware entry of your own with that model's figures",
        )
    return next(iter(named.values()), None)


def _recorded(call: Call, name: str) -> tuple[str, Usage]:
    """A run's id, and how often each expert was used in its pristine trials, all levels together.

    Raises UsageError.
    """
    import msgspec

    from oeactl.core.routing import Usage, pooled
    from oeactl.edges.store import ResultsFolder
    from oeactl.errors import UsageError

    store = ResultsFolder(call.project.root / "results")
    run = store.load(name)
    pristine = [trial for trial in run.trials if not trial.recipes]
    if run.trials and not pristine:
        raise UsageError(
            "this run was recorded on a patched server, and shows what a recipe left of the routing",
            where=run.path,
            hint="name a pristine run that was made with bench --experts",
        )
    seen = [point.experts for trial in pristine for point in trial.points if point.experts is not None]
    digests = [one.counts_sha256 for one in seen if one.counts_sha256 is not None]
    try:
        recordings = [msgspec.json.decode(store.load_raw(run, one), type=Usage) for one in digests]
        return run.plan.run_id, pooled(recordings)
    except (ValueError, msgspec.MsgspecError) as problem:
        raise UsageError(str(problem), where=run.path, hint="oeactl bench --experts records it") from problem
