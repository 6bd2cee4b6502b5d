"""``oeactl bench``."""

from __future__ import annotations

from typing import Annotated

import typer

from oeactl.cli.common import Call, HostOption, command
from oeactl.cli.load import ApiOption, DatasetOption, DriverOption, FromOption, ProcessesOption

ConcurrencyOption = Annotated[
    str | None,
    typer.Option("--concurrency", "-c", metavar="N,N,…", help="Levels in the order to measure them."),
]
InputOption = Annotated[
    int | None, typer.Option("--input-len", min=1, metavar="TOKENS", help="Prompt length.")
]
OutputOption = Annotated[
    int | None, typer.Option("--output-len", min=1, metavar="TOKENS", help="Generated length.")
]
RequestsOption = Annotated[
    int | None,
    typer.Option("--requests", min=1, metavar="N", help="Requests a level; else 10 a stream, at least 16."),
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="What the prompts are drawn from.")]
LabelOption = Annotated[
    str | None, typer.Option("--label", metavar="NAME", help="Name of the run; else the recipes on the host.")
]
ExpertsOption = Annotated[
    bool,
    typer.Option(
        "--experts", help="After each level, see which experts a small batch of that size really uses."
    ),
]


@command(
    "oeactl bench --concurrency 64,128,256",
    "oeactl bench --host 10.1.230.174 -c 16 --input-len 1024 --output-len 256 --label night",
    "oeactl bench --driver light --dataset natural -c 8,16",
)
def bench(
    call: Call,
    host: HostOption = None,
    concurrency: ConcurrencyOption = None,
    input_len: InputOption = None,
    output_len: OutputOption = None,
    requests: RequestsOption = None,
    seed: SeedOption = None,
    label: LabelOption = None,
    experts: ExpertsOption = False,
    driver: DriverOption = None,
    api: ApiOption = None,
    dataset: DatasetOption = None,
    processes: ProcessesOption = None,
    origin: FromOption = None,
) -> int:
    """Measure throughput level by level on the server as it runs, into results/.

    Never patches, never restarts. Each level: warm-up, cache flush, measured requests, gates. A level that
    fails a gate is kept with its reasons and void (exit 8). Ctrl-C keeps the finished levels.
    """
    import secrets
    from dataclasses import replace

    from oeactl import __version__
    from oeactl.cli.load import chosen_load, driver_of, settled_load, with_dataset
    from oeactl.cli.wiring import wired
    from oeactl.core.load import make_sweep, parse_concurrency
    from oeactl.edges.config import read_recipe, recipe_ids
    from oeactl.edges.store import ResultsFolder
    from oeactl.flows.bench import Order
    from oeactl.flows.bench import bench as run
    from oeactl.render.errors import document
    from oeactl.render.results import run_document, run_view

    load = chosen_load(driver=driver, api=api, dataset=dataset, processes=processes, origin=origin)
    chosen = call.host(host)
    defaults = chosen.bench
    sweep = make_sweep(
        parse_concurrency(concurrency) if concurrency is not None else defaults.concurrency,
        input_len=input_len or defaults.input_len,
        output_len=output_len or defaults.output_len,
        seed=defaults.seed if seed is None else seed,
        requests=requests,
    )
    recipes = [read_recipe(call.root, name) for name in recipe_ids(call.root)]
    order = Order(
        sweep=sweep,
        token=secrets.token_hex(4),
        modules=tuple(dict.fromkeys(module for recipe in recipes for module in recipe.modules)),
        oeactl_version=__version__,
        label=label,
        experts=experts,
    )
    store = ResultsFolder(call.project.root / "results")
    with wired(call, chosen) as here:
        load = settled_load(load, here)
        order = replace(order, sweep=with_dataset(order.sweep, load))
        with driver_of(load, here) as sender:
            outcome = run(here.site, sender, store, order)
    if outcome.error is not None and call.json:
        call.emit({**run_document(outcome.run), **document(outcome.error)}, lambda: "")
        return outcome.error.exit_code
    call.emit(run_document(outcome.run), lambda: run_view(outcome.run, width=call.width))
    if outcome.error is not None:
        raise outcome.error
    return 0
