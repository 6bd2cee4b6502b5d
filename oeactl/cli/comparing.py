"""What the commands that compare by restarts share: from their words to a run, from its end to an exit code.

Owns: reading their options. Refuses: to know which command it is beyond its name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from oeactl.cli.common import Call, transformer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oeactl.cli.load import Load
    from oeactl.cli.wiring import Wired
    from oeactl.core.inventory import Host
    from oeactl.core.run import Run
    from oeactl.edges.store import ResultsFolder
    from oeactl.flows.build import Wanted
    from oeactl.flows.experiment import Concluded
    from oeactl.flows.planning import ArmOrder


def compare(
    call: Call,
    what: Literal["ab", "aa", "scan"],
    arms: Sequence[ArmOrder],
    *,
    host: Host,
    pairs: str | None,
    budget: str | None,
    concurrency: str | None,
    lengths: tuple[int | None, int | None, int | None],
    margin: str,
    analysis: str,
    leave: str,
    warm: bool,
    caches: str,
    seed: int | None,
    label: str | None,
    trial_takes: str | None,
    client: tuple[str | None, str | None, str | None],
    experts: bool,
    plan_only: bool,
    yes: bool,
) -> int:
    import secrets

    from oeactl import __version__
    from oeactl.cli.load import driver_of, settled_load, with_dataset
    from oeactl.cli.wiring import wired
    from oeactl.core.document import seconds_of
    from oeactl.core.experiment import Analysed, Leave
    from oeactl.core.load import make_sweep, parse_concurrency
    from oeactl.edges.store import ResultsFolder
    from oeactl.errors import UsageError
    from oeactl.flows.experiment import conduct
    from oeactl.flows.planning import Order, prepare
    from oeactl.render.experiment import plan_document, plan_view

    load = _load(*client)
    if pairs is not None and budget is not None:
        raise UsageError("--budget makes the number of pairs", where="--pairs", hint="give one of them")
    most, looks = _pairs(pairs or "4")
    input_len, output_len, requests = lengths
    drawn = secrets.randbits(31) if seed is None else seed
    analysed: Analysed = "regression" if _one_of("--analysis", analysis, "paired", "regression") else "paired"
    left: Leave = "patched" if _one_of("--leave", leave, "pristine", "patched") else "pristine"
    order = Order(
        what=what,
        arms=tuple(arms),
        sweep=make_sweep(
            parse_concurrency(concurrency) if concurrency is not None else host.bench.concurrency,
            input_len=input_len or host.bench.input_len,
            output_len=output_len or host.bench.output_len,
            seed=drawn,
            requests=requests,
        ),
        pairs=most,
        looks=looks,
        seed=drawn,
        token=secrets.token_hex(4),
        oeactl_version=__version__,
        margin=_fraction(margin),
        analysis=analysed,
        leave=left,
        warm=warm,
        caches="wipe" if _one_of("--caches", caches, "keep", "wipe") else "keep",
        modules=all_modules(call),
        label=label,
        budget_s=seconds_of(budget, where="--budget") if budget else None,
        trial_s=seconds_of(trial_takes, where="--trial-takes") if trial_takes else None,
        experts=experts,
    )
    store = ResultsFolder(call.project.root / "results")
    with wired(call, host, yes=yes) as here:
        load = settled_load(load, here)
        order = replace(order, sweep=with_dataset(order.sweep, load), api=load.api)
        with driver_of(call, load, here) as driver:
            prepared = prepare(here.site, driver, store, order, only=plan_only)
            if plan_only:
                document = plan_document(prepared.plan, prepared.foreseen)
                call.emit(document, lambda: plan_view(prepared.plan, prepared.foreseen, width=call.width))
                return 0
            call.show(plan_view(prepared.plan, prepared.foreseen, width=call.width))
            concluded = conduct(here.site, driver, store, prepared)
        put_on_record(call, here, concluded)
    return ended(call, store, concluded)


def _load(driver: str | None, api: str | None, dataset: str | None) -> Load:
    from oeactl.cli.load import chosen_load
    from oeactl.errors import UsageError

    load = chosen_load(driver=driver, api=api, dataset=dataset, processes=None, origin=None)
    if load.file is not None:
        raise UsageError(
            "a comparison draws new prompts in every pair, which a file does not have",
            where=f"--dataset {dataset}",
            hint="--dataset random-ids, natural or shared-prefix",
        )
    return load


def ended(call: Call, store: ResultsFolder, concluded: Concluded) -> int:
    """Show it, warn where its baseline is no usual one, then end as its error says."""
    from oeactl.cli.report import keep_reports
    from oeactl.render.errors import document
    from oeactl.render.experiment import conclusion_document, conclusion_view

    failed = concluded.error
    shown = conclusion_document(concluded.run, concluded.left) | (document(failed) if failed else {})
    call.emit(shown, lambda: conclusion_view(concluded.run, width=call.width, left=concluded.left))
    keep_reports(store, concluded.run)
    call.show("report.html there tells it with figures, report.md is for a pull request")
    warn_of_baseline(call, store, concluded.run)
    if failed is not None and not call.json:
        raise failed
    return failed.exit_code if failed is not None else 0


def warn_of_baseline(call: Call, store: ResultsFolder, run: Run) -> None:
    """Say so where the original engine of ``run`` left the band of the runs before it."""
    from oeactl.core.history import history
    from oeactl.render.history import left_line

    for series in history(store.list().runs, run.plan.host):
        if series.left and series.baselines[-1].run_id == run.plan.run_id:
            call.progress.warn(f"{left_line(series)}. oeactl history --host {run.plan.host}")


def put_on_record(call: Call, here: Wired, concluded: Concluded) -> None:
    """Note, or forget, what is on the host now, so that a later ``revert`` elsewhere can name it."""
    from oeactl.core.outcomes import OnRecord
    from oeactl.edges.local_record import local_record

    host, plan = here.site.host, concluded.run.plan
    if concluded.left == "as it was" or plan.design is None:
        return
    project = str(call.project.root)
    record = local_record()
    record.remove(host=host.name, project=project)
    left = plan.arms[-1].recipes if plan.design.leave == "patched" else ()
    record.add(
        *(
            OnRecord(
                host=host.name,
                address=host.address,
                project=project,
                recipe=recipe.recipe,
                digest=recipe.digest,
                at=plan.created_at.isoformat(timespec="seconds"),
            )
            for recipe in left
        )
    )


def wanted_recipe(call: Call, recipe: str, sets: dict[str, str], allow_code: bool) -> Wanted:
    from oeactl.edges.config import read_recipe
    from oeactl.flows.build import Wanted

    return Wanted(recipe=read_recipe(call.root, recipe), sets=sets, transformer=transformer(allow_code))


def all_modules(call: Call) -> tuple[str, ...]:
    """The files of every recipe there is: a trial records them all, patched or not."""
    from oeactl.edges.config import read_recipe, recipe_ids

    recipes = [read_recipe(call.root, name) for name in recipe_ids(call.root)]
    return tuple(dict.fromkeys(module for recipe in recipes for module in recipe.modules))


def _pairs(text: str) -> tuple[int, bool]:
    """``4`` or ``3..6``: the number of pairs, and whether to look after each from the third on."""
    from oeactl.core.stats import FIRST_LOOK
    from oeactl.errors import UsageError

    first, dots, last = text.partition("..")
    number = last if dots else first
    if not number.isdigit() or (dots and first != str(FIRST_LOOK)):
        raise UsageError(f"'{text}' is not a number of pairs", where="--pairs", hint="--pairs 4, or 3..6")
    return int(number), bool(dots)


def _fraction(text: str) -> float:
    """``3%`` or ``0.03``."""
    from oeactl.errors import UsageError

    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise UsageError(f"'{text}' is not a margin", where="--margin", hint="--margin 3%")
    return value


def _one_of(option: str, text: str, usual: str, other: str) -> bool:
    """Whether it is the other of the two."""
    from oeactl.errors import UsageError

    if text not in (usual, other):
        raise UsageError(f"'{text}' is neither {usual} nor {other}", where=option)
    return text == other
