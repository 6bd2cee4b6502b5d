"""``oeactl run resume``: go on with a run that was cut short, whatever it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import AllowCodeOption, Call, YesOption, command, group

if TYPE_CHECKING:
    from oeactl.core.run import AppliedRecipe, Run
    from oeactl.edges.store import ResultsFolder
    from oeactl.flows.build import Wanted

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, any part that fits it alone, or 'last'.")
]
PromptsOption = Annotated[
    Path | None,
    typer.Option("--dataset", metavar="FILE", help="The prompts of a bench, where they lie elsewhere now."),
]


@command("oeactl run resume last", "oeactl run resume 20261129T031500Z-ab-oea-1f3a9c2e --yes")
def resume(
    call: Call,
    run: RunArgument = "last",
    dataset: PromptsOption = None,
    allow_code: AllowCodeOption = False,
    yes: YesOption = False,
) -> int:
    """Go on with a run that was cut short: a bench with its next level, a comparison with its next trial.

    What finished is neither done again nor rewritten. Refused where engine, recipes, server or hosts.yaml are
    not what they were when it began.
    """
    from oeactl.edges.store import ResultsFolder

    found = ResultsFolder((call.root or Path.cwd()) / "results").load(run)
    store = ResultsFolder(Path(found.path).parents[2])
    if found.plan.what == "bench":
        return _bench(call, store, found, dataset)
    return _comparison(call, store, found, allow_code=allow_code, yes=yes)


def _comparison(call: Call, store: ResultsFolder, found: Run, *, allow_code: bool, yes: bool) -> int:
    from oeactl.cli.comparing import all_modules, ended, put_on_record, wanted_recipe
    from oeactl.cli.load import driver_of, load_of
    from oeactl.cli.wiring import wired
    from oeactl.core.launch import text_of
    from oeactl.flows.experiment import resume as go_on
    from oeactl.flows.planning import prepare_again

    def wanted_of(recipe: AppliedRecipe) -> Wanted:
        sets = {name: text_of(value) for name, value in recipe.parameters.items()}
        return wanted_recipe(call, recipe.recipe, sets, allow_code)

    with wired(call, call.host(found.plan.host), yes=yes) as here:
        prepared = prepare_again(here.site, found.plan, wanted_of, all_modules(call))
        with driver_of(call, load_of(found.plan), here) as driver:
            concluded = go_on(here.site, driver, store, prepared, found)
        put_on_record(call, here, concluded)
    return ended(call, store, concluded)


def _bench(call: Call, store: ResultsFolder, found: Run, dataset: Path | None) -> int:
    from oeactl import __version__
    from oeactl.cli.bench import by_url, on_host, told
    from oeactl.cli.load import load_of
    from oeactl.core.resumption import is_over
    from oeactl.core.run import Sending
    from oeactl.flows.bench import Benched, Order

    if is_over(found):
        return told(call, Benched(run=found))
    sending = found.plan.sending or Sending()
    order = Order(
        sweep=found.plan.sweep,
        token="",
        modules=(),
        oeactl_version=__version__,
        sending=sending,
        found=found,
    )
    load = load_of(found.plan, dataset)
    if sending.url is not None:
        return told(call, by_url(call, load, order, store))
    return told(call, on_host(call, call.host(found.plan.host), load, order, store))


run = group("Runs that take long: go on with one that was cut short.", resume)
