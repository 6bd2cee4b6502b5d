"""``oeactl ab|aa|scan``: comparisons by fresh restarts."""

from __future__ import annotations

from typing import Annotated

import typer

from oeactl.cli.bench import ConcurrencyOption, ExpertsOption, InputOption, OutputOption, RequestsOption
from oeactl.cli.common import (
    AllowCodeOption,
    Call,
    HostOption,
    RecipeOption,
    SetOption,
    YesOption,
    command,
    values_of,
)
from oeactl.cli.comparing import compare, wanted_recipe
from oeactl.cli.load import ApiOption, DatasetOption, DriverOption

PairsOption = Annotated[
    str | None,
    typer.Option(
        "--pairs",
        metavar="N",
        help="Restarts of each arm, else 4; 3..6 or 3..10 looks after every pair and may stop.",
    ),
]
BudgetOption = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help="As many pairs as fit (3h), by what a trial takes here."),
]
MarginOption = Annotated[
    str, typer.Option("--margin", metavar="PERCENT", help="How much matters: for 'material', 'equivalent'.")
]
AnalysisOption = Annotated[
    str, typer.Option("--analysis", metavar="paired|regression", help="Chosen now, before the first trial.")
]
LeaveOption = Annotated[
    str, typer.Option("--leave", metavar="pristine|patched", help="How the host is left, however it ends.")
]
WarmOption = Annotated[
    bool,
    typer.Option(
        "--warm/--no-warm", help="Start every arm once before the first pair, so that caches are warm."
    ),
]
CachesOption = Annotated[
    str,
    typer.Option("--caches", metavar="keep|wipe", help="Compilation caches: all starts warm, or all cold."),
]
PlanOnlyOption = Annotated[
    bool, typer.Option("--plan-only", help="Show the trials, what they take and could see; do nothing.")
]
TakesOption = Annotated[
    str | None,
    typer.Option(
        "--trial-takes", metavar="TIME", help="What one trial takes (12m), where past runs do not say."
    ),
]
PlanSeedOption = Annotated[
    int | None, typer.Option("--seed", min=0, help="What orders and prompts are drawn from; else drawn now.")
]
RunLabelOption = Annotated[str | None, typer.Option("--label", metavar="NAME", help="Name of the run.")]
ArgOption = Annotated[
    list[str],
    typer.Option("--arg", metavar="NAME=V,V,…", help="Values of an argument of the server; may be repeated."),
]
EnvOption = Annotated[
    list[str],
    typer.Option("--env", metavar="NAME=V,V,…", help="Values of a variable of the server; may be repeated."),
]
ValuesOption = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=V,V,…", help="Values of a parameter of the recipe; may be repeated."),
]
ScanRecipeOption = Annotated[
    str | None,
    typer.Option("--recipe", metavar="ID", help="The recipe on every arm; oea where --set is given."),
]
PristineOption = Annotated[
    bool,
    typer.Option("--pristine", help="Put the engine as hosts.yaml starts it before them, as the first arm."),
]


@command(
    "oeactl ab --recipe oea --set k0=4 --pairs 4 --concurrency 64,128,256",
    "oeactl ab --set k0=2 --pairs 3..6 --plan-only",
    "oeactl ab --budget 3h --trial-takes 12m",
)
def ab(
    call: Call,
    host: HostOption = None,
    recipe: RecipeOption = "oea",
    sets: SetOption = [],  # noqa: B006 - typer's way to say none
    pairs: PairsOption = None,
    budget: BudgetOption = None,
    concurrency: ConcurrencyOption = None,
    input_len: InputOption = None,
    output_len: OutputOption = None,
    requests: RequestsOption = None,
    margin: MarginOption = "3%",
    analysis: AnalysisOption = "paired",
    leave: LeaveOption = "pristine",
    warm: WarmOption = True,
    caches: CachesOption = "keep",
    seed: PlanSeedOption = None,
    label: RunLabelOption = None,
    trial_takes: TakesOption = None,
    driver: DriverOption = None,
    api: ApiOption = None,
    dataset: DatasetOption = None,
    experts: ExpertsOption = False,
    plan_only: PlanOnlyOption = False,
    allow_code: AllowCodeOption = False,
    yes: YesOption = False,
) -> int:
    """Tell whether a recipe makes the engine faster: pairs of fresh restarts, with it and without.

    Everything is fixed before the first trial. Each trial: files, restart, proof, sweep. A trial that fails
    is a row with its first error (exit 8), and the rest goes on. However it ends, the host is left as --leave
    says; what was cut short goes on with `oeactl run resume`.
    """
    from oeactl.flows.planning import ArmOrder

    wanted = wanted_recipe(call, recipe, values_of(sets), allow_code)
    return compare(
        call,
        "ab",
        [ArmOrder(), ArmOrder(wanted=(wanted,))],
        host=call.host(host),
        pairs=pairs,
        budget=budget,
        concurrency=concurrency,
        lengths=(input_len, output_len, requests),
        margin=margin,
        analysis=analysis,
        leave=leave,
        warm=warm,
        caches=caches,
        seed=seed,
        label=label,
        trial_takes=trial_takes,
        client=(driver, api, dataset),
        experts=experts,
        plan_only=plan_only,
        yes=yes,
    )


@command("oeactl aa --pairs 4 --concurrency 64,128")
def aa(
    call: Call,
    host: HostOption = None,
    pairs: PairsOption = None,
    budget: BudgetOption = None,
    concurrency: ConcurrencyOption = None,
    input_len: InputOption = None,
    output_len: OutputOption = None,
    requests: RequestsOption = None,
    margin: MarginOption = "3%",
    analysis: AnalysisOption = "paired",
    warm: WarmOption = True,
    caches: CachesOption = "keep",
    seed: PlanSeedOption = None,
    label: RunLabelOption = None,
    trial_takes: TakesOption = None,
    driver: DriverOption = None,
    api: ApiOption = None,
    dataset: DatasetOption = None,
    experts: ExpertsOption = False,
    plan_only: PlanOnlyOption = False,
    yes: YesOption = False,
) -> int:
    """Compare the original engine with itself: how much restarts of this host vary.

    The noise is used by the next plan on this host. A material verdict here means that the host is not fit
    to compare anything on.
    """
    from oeactl.flows.planning import ArmOrder

    return compare(
        call,
        "aa",
        [ArmOrder(), ArmOrder()],
        host=call.host(host),
        pairs=pairs,
        budget=budget,
        concurrency=concurrency,
        lengths=(input_len, output_len, requests),
        margin=margin,
        analysis=analysis,
        leave="pristine",
        warm=warm,
        caches=caches,
        seed=seed,
        label=label,
        trial_takes=trial_takes,
        client=(driver, api, dataset),
        experts=experts,
        plan_only=plan_only,
        yes=yes,
    )


@command(
    "oeactl scan --set k0=2,4,6 --pristine",
    "oeactl scan --arg max-running-requests=64,128 --env NCCL_ALGO=Ring,Tree --pairs 3",
)
def scan(
    call: Call,
    host: HostOption = None,
    recipe: ScanRecipeOption = None,
    sets: ValuesOption = [],  # noqa: B006
    args: ArgOption = [],  # noqa: B006
    env: EnvOption = [],  # noqa: B006
    pristine: PristineOption = False,
    pairs: PairsOption = None,
    budget: BudgetOption = None,
    concurrency: ConcurrencyOption = None,
    input_len: InputOption = None,
    output_len: OutputOption = None,
    requests: RequestsOption = None,
    margin: MarginOption = "3%",
    analysis: AnalysisOption = "paired",
    warm: WarmOption = True,
    caches: CachesOption = "keep",
    seed: PlanSeedOption = None,
    label: RunLabelOption = None,
    trial_takes: TakesOption = None,
    driver: DriverOption = None,
    api: ApiOption = None,
    dataset: DatasetOption = None,
    experts: ExpertsOption = False,
    plan_only: PlanOnlyOption = False,
    allow_code: AllowCodeOption = False,
    yes: YesOption = False,
) -> int:
    """Compare every combination of the values given against the first one, corrected for their number.

    The same trials, failures and resumption as in `oeactl ab`. The host is left pristine.
    """
    from oeactl.flows.planning import ArmOrder

    name = recipe or ("oea" if sets else None)
    arms = [ArmOrder()] if pristine else []
    for chosen in _combinations(("--set", sets), ("--arg", args), ("--env", env)):
        wanted = (wanted_recipe(call, name, chosen["--set"], allow_code),) if name else ()
        words = tuple(word for key, text in chosen["--arg"].items() for word in (f"--{key}", text))
        arms.append(ArmOrder(wanted=wanted, args=words, env=chosen["--env"]))
    return compare(
        call,
        "scan",
        arms,
        host=call.host(host),
        pairs=pairs,
        budget=budget,
        concurrency=concurrency,
        lengths=(input_len, output_len, requests),
        margin=margin,
        analysis=analysis,
        leave="pristine",
        warm=warm,
        caches=caches,
        seed=seed,
        label=label,
        trial_takes=trial_takes,
        client=(driver, api, dataset),
        experts=experts,
        plan_only=plan_only,
        yes=yes,
    )


def _combinations(*kinds: tuple[str, list[str]]) -> list[dict[str, dict[str, str]]]:
    """Every combination of ``NAME=V,V`` words, by option; the last one given changes fastest."""
    from itertools import product

    from oeactl.errors import UsageError

    choices = [
        [(option, name, value.strip()) for value in text.split(",")]
        for option, words in kinds
        for name, text in values_of(words).items()
    ]
    if not choices:
        raise UsageError("there is nothing to scan", hint="--set k0=2,4, --arg NAME=V,V or --env NAME=V,V")
    found = []
    for combination in product(*choices):
        chosen: dict[str, dict[str, str]] = {option: {} for option, _ in kinds}
        for option, name, value in combination:
            chosen[option][name.removeprefix("--") if option == "--arg" else name] = value
        found.append(chosen)
    return found
