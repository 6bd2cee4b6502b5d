"""``oeactl bench``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import Call, HostOption, command
from oeactl.cli.load import (
    HERE,
    ApiOption,
    DatasetOption,
    DriverOption,
    FromOption,
    FromUrlOption,
    KeyOption,
    ModelOption,
    ProcessesOption,
    UrlOption,
)
from oeactl.core.load import (
    MOST_IN_FLIGHT,
    Targets,
    by_rate,
    make_sweep,
    parse_concurrency,
    parse_rates,
)
from oeactl.core.matrix import by_context, parse_contexts
from oeactl.errors import UsageError

if TYPE_CHECKING:
    from oeactl.cli.load import Load
    from oeactl.core.inventory import BenchSpec, Host
    from oeactl.core.load import Sweep
    from oeactl.core.run import Sending
    from oeactl.edges.store import ResultsFolder
    from oeactl.flows.bench import Benched, Order

ConcurrencyOption = Annotated[
    str | None,
    typer.Option(
        "--concurrency", "-c", metavar="N,N,…", help="Levels in the order to measure them; also 8..512x2."
    ),
]
InputOption = Annotated[
    int | None, typer.Option("--input-len", min=1, metavar="TOKENS", help="Prompt length.")
]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", metavar="N,N,…", help="Prompt lengths, each at every level: 512,8k,32k."),
]
OutputOption = Annotated[
    int | None, typer.Option("--output-len", min=1, metavar="TOKENS", help="Generated length.")
]
RequestsOption = Annotated[
    int | None,
    typer.Option("--requests", min=1, metavar="N", help="Requests a level; else 10 a stream, at least 16."),
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="What the prompts are drawn from.")]
RateOption = Annotated[
    str | None,
    typer.Option("--rate", metavar="R,R,…", help="Arrivals a second (Poisson) instead of streams."),
]
DurationOption = Annotated[
    float | None,
    typer.Option("--duration", min=0.1, metavar="SECONDS", help="Send that long instead of --requests."),
]
TtftOption = Annotated[
    float | None,
    typer.Option("--ttft", min=0.001, metavar="MS", help="A target: goodput counts requests that meet it."),
]
TpotOption = Annotated[
    float | None, typer.Option("--tpot", min=0.001, metavar="MS", help="Another, per token after the first.")
]
SaturatedOption = Annotated[
    bool,
    typer.Option("--until-saturated", help="End where doubling gains under 5 %, or a target is broken."),
]
LabelOption = Annotated[
    str | None, typer.Option("--label", metavar="NAME", help="Name of the run; else the recipes on the host.")
]
ExpertsOption = Annotated[
    bool,
    typer.Option(
        "--experts", help="After each level, see which experts a small batch of that size really uses."
    ),
]

_DOUBLINGS = tuple(1 << power for power in range(11))


@command(
    "oeactl bench --concurrency 64,128,256",
    "oeactl bench --host 10.1.230.174 -c 16 --input-len 1024 --output-len 256 --label night",
    "oeactl bench --driver light --dataset natural -c 8,16",
    "oeactl bench --url http://127.0.0.1:30000 -c 1,8",
    "oeactl bench --until-saturated --ttft 2000 --tpot 50",
    "oeactl bench --context 1k,8k,32k -c 1,8,64",
)
def bench(
    call: Call,
    host: HostOption = None,
    url: UrlOption = None,
    concurrency: ConcurrencyOption = None,
    input_len: InputOption = None,
    context: ContextOption = None,
    output_len: OutputOption = None,
    requests: RequestsOption = None,
    seed: SeedOption = None,
    rate: RateOption = None,
    duration: DurationOption = None,
    ttft: TtftOption = None,
    tpot: TpotOption = None,
    until_saturated: SaturatedOption = False,
    label: LabelOption = None,
    experts: ExpertsOption = False,
    driver: DriverOption = None,
    api: ApiOption = None,
    dataset: DatasetOption = None,
    processes: ProcessesOption = None,
    origin: FromOption = None,
    origin_url: FromUrlOption = None,
    model: ModelOption = None,
    api_key_env: KeyOption = None,
) -> int:
    """Measure throughput level by level on the server as it runs, into results/.

    Never patches, never restarts. Each level: warm-up, cache flush, measured requests, gates. A level that
    fails a gate is kept with its reasons and void (exit 8). Ctrl-C keeps the finished levels: `run resume`.
    """
    from oeactl.cli.load import chosen_load, sending_of
    from oeactl.core.inventory import BenchSpec
    from oeactl.edges.store import ResultsFolder

    load = chosen_load(
        driver=driver,
        api=api,
        dataset=dataset,
        processes=processes,
        origin=origin,
        origin_url=origin_url,
        timed="--rate" if rate else "--duration" if duration else None,
    )
    if url is None and (model or api_key_env):
        raise UsageError("--model and --api-key-env belong to --url", hint="hosts.yaml says both of a host")
    if url is not None and (host or experts or origin == HERE or driver == "sglang"):
        raise UsageError(
            "--url is measured from here, or --from HOST, by the light client",
            hint="leave the other option out",
        )
    chosen = call.host(host) if url is None else None
    defaults = chosen.bench if chosen else BenchSpec()
    sweep = make_sweep(
        (MOST_IN_FLIGHT,) if rate and not concurrency else _levels(concurrency, defaults, until_saturated),
        input_len=input_len or defaults.input_len,
        output_len=output_len or defaults.output_len,
        seed=defaults.seed if seed is None else seed,
        requests=None if rate else requests,
        targets=Targets(ttft_ms=ttft, tpot_ms=tpot) if ttft or tpot else None,
        until_saturated=until_saturated,
    )
    if context is not None:
        if input_len is not None:
            raise UsageError(
                "--context and --input-len both say how long prompts are", hint="give one of them"
            )
        sweep = by_context(sweep, parse_contexts(context), requests=requests)
    sweep = _timed(sweep, rate, duration, requests)
    sending = sending_of(load, experts=experts, url=url, model=model, api_key_env=api_key_env)
    if chosen is None:
        store = ResultsFolder(Path.cwd() / "results")
        return told(call, by_url(call, load, _order(sweep, label, sending), store))
    store = ResultsFolder(call.project.root / "results")
    return told(call, on_host(call, chosen, load, _order(sweep, label, sending), store))


def _levels(text: str | None, defaults: BenchSpec, until_saturated: bool) -> tuple[int, ...]:
    if text is None:
        return _DOUBLINGS if until_saturated else defaults.concurrency
    levels = parse_concurrency(text)
    if until_saturated and list(levels) != sorted(levels):
        raise UsageError("--until-saturated needs rising levels", hint="--concurrency 8..512x2")
    return levels


def _timed(sweep: Sweep, rate: str | None, duration_s: float | None, requests: int | None) -> Sweep:
    """The sweep by arrivals, and for so long, where that was asked for."""
    import msgspec

    if duration_s is not None and requests is not None:
        raise UsageError("--duration and --requests both say when a level ends", hint="give one of them")
    if rate is not None:
        if sweep.until_saturated:
            raise UsageError("--until-saturated counts streams, and --rate has none", hint="give one of them")
        sweep = by_rate(sweep, parse_rates(rate), requests=requests)
    if duration_s is None:
        return sweep
    points = tuple(msgspec.structs.replace(point, duration_s=duration_s) for point in sweep.points)
    return msgspec.structs.replace(sweep, points=points)


def _order(sweep: Sweep, label: str | None, sending: Sending) -> Order:
    import secrets

    from oeactl import __version__
    from oeactl.flows.bench import Order

    return Order(
        sweep=sweep,
        token=secrets.token_hex(4),
        modules=(),
        oeactl_version=__version__,
        label=label,
        sending=sending,
    )


def on_host(call: Call, chosen: Host, load: Load, order: Order, store: ResultsFolder) -> Benched:
    """Measure the server of a host, from the beginning or on from what ``order.found`` has."""
    from oeactl.cli.load import driver_of, settled_load, with_dataset
    from oeactl.cli.wiring import wired
    from oeactl.edges.config import read_recipe, recipe_ids
    from oeactl.flows.bench import bench as run

    recipes = [read_recipe(call.root, name) for name in recipe_ids(call.root)]
    modules = tuple(dict.fromkeys(module for recipe in recipes for module in recipe.modules))
    with wired(call, chosen) as here:
        load = settled_load(load, here)
        order = replace(order, modules=modules, recipes=tuple(recipes))
        if order.found is None:
            order = replace(order, sweep=with_dataset(order.sweep, load))
        with driver_of(call, load, here) as sender:
            return run(here.site, sender, store, order)


def by_url(call: Call, load: Load, order: Order, store: ResultsFolder) -> Benched:
    """Measure what answers at a URL, from this machine."""
    from oeactl.cli.foreign import foreign_at
    from oeactl.flows.bench_url import bench_url

    sending = order.sending
    assert sending.url is not None
    with foreign_at(call, sending.url, load, model=sending.model, api_key_env=sending.api_key_env) as there:
        if order.found is None:
            order = replace(order, sweep=there.with_dataset(order.sweep))
        return bench_url(there.site, there.foreign, there.driver, store, order)


def told(call: Call, outcome: Benched) -> int:
    """Show it, then end as its error says."""
    from oeactl.render.errors import document
    from oeactl.render.results import run_document, run_view

    if outcome.error is not None and call.json:
        call.emit({**run_document(outcome.run), **document(outcome.error)}, lambda: "")
        return outcome.error.exit_code
    call.emit(run_document(outcome.run), lambda: run_view(outcome.run, width=call.width))
    if outcome.error is not None:
        raise outcome.error
    return 0
