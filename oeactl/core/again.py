"""The command that makes a run again, out of its plan: every choice named, nothing left to a default.

Owns: the words, and which arms one ``scan`` command can name. Refuses: a command that would make other arms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from oeactl.core.launch import text_of
from oeactl.core.load import Point, make_point
from oeactl.core.results import clean_label
from oeactl.core.run import Arm, Plan, Run

Choice = tuple[str, str]  # ("--set", "k0")


def again(run: Run, host: str | None = None) -> tuple[str, ...] | None:
    """argv from ``oeactl`` on; None where no one command does. host: instead of the run's own."""
    plan = run.plan
    if plan.what == "import":
        return None
    if plan.what == "bench":
        return (
            "oeactl",
            "bench",
            *_target(run, host),
            *_load(plan),
            *_client(run),
            *_bench(run),
            *_label(plan),
        )
    arms = _arms(plan)
    if arms is None:
        return None
    return (
        "oeactl",
        plan.what,
        "--host",
        host or plan.host,
        *arms,
        *_design(plan),
        *_load(plan),
        *_client(run),
    )


def _target(run: Run, host: str | None = None) -> tuple[str, ...]:
    """Where: a host, or a server known by its URL."""
    sending, first = run.plan.sending, next(iter(run.trials), None)
    url = (sending.url if sending else None) or (
        first.server.url if first is not None and first.engine.root is None else None
    )
    if url is None:
        return ("--host", host or run.plan.host)
    words = ["--url", url]
    words += ["--model", sending.model] if sending and sending.model else []
    words += ["--api-key-env", sending.api_key_env] if sending and sending.api_key_env else []
    return tuple(words)


def _arms(plan: Plan) -> tuple[str, ...] | None:
    if plan.what == "aa":
        return ()
    if plan.what == "ab":
        (*_, last) = plan.arms
        return tuple(word for recipe in last.recipes for word in _recipe(recipe.recipe, recipe.parameters))
    first, *others = plan.arms
    return _scanned(others if first.plain else plan.arms, ("--pristine",) if first.plain else ())


def _recipe(name: str, parameters: Mapping[str, object]) -> tuple[str, ...]:
    sets = (f"{key}={text_of(value)}" for key, value in sorted(parameters.items()))
    return ("--recipe", name, *(word for text in sets for word in ("--set", text)))


def _scanned(arms: Sequence[Arm], head: tuple[str, ...]) -> tuple[str, ...] | None:
    """The words of a scan whose combinations are ``arms``, in their order; None where there are none."""
    rows = [_choices(arm) for arm in arms]
    recipes = {tuple(recipe.recipe for recipe in arm.recipes) for arm in arms}
    if len(recipes) != 1 or any(set(row) != set(rows[0]) for row in rows):
        return None
    kinds = ("--set", "--arg", "--env")
    slow = sorted(rows[0], key=lambda key: (kinds.index(key[0]), -_period(rows, key), key))
    values = {key: tuple(dict.fromkeys(row[key] for row in rows)) for key in slow}
    made = [dict(zip(slow, chosen, strict=True)) for chosen in product(*(values[key] for key in slow))]
    if made != [{key: row[key] for key in slow} for row in rows]:
        return None
    (names,) = recipes
    words = [*head, *(word for name in names for word in ("--recipe", name))]
    for option, name in slow:
        words += [option, f"{name}={','.join(values[option, name])}"]
    return tuple(words)


def _choices(arm: Arm) -> dict[Choice, str]:
    found = {
        ("--set", name): text_of(value) for recipe in arm.recipes for name, value in recipe.parameters.items()
    }
    found |= {
        ("--arg", name.removeprefix("--")): value
        for name, value in zip(arm.args[::2], arm.args[1::2], strict=False)
    }
    return found | {("--env", name): value for name, value in arm.env.items()}


def _period(rows: Sequence[Mapping[Choice, str]], key: Choice) -> int:
    """How many arms keep the first value: what is named first changes last."""
    return next((at for at, row in enumerate(rows) if row[key] != rows[0][key]), len(rows))


def _design(plan: Plan) -> tuple[str, ...]:
    design = plan.design
    assert design is not None
    words = ["--pairs", f"3..{design.pairs}" if design.looks else str(design.pairs)]
    words += ["--seed", str(design.seed), "--margin", f"{design.margin:g}"]
    words += ["--analysis", "regression"] if design.analysis == "regression" else []
    words += ["--leave", "patched"] if design.leave == "patched" else []
    words += [] if design.warm_sweep else ["--no-warm"]
    words += ["--caches", "wipe"] if design.caches == "wipe" else []
    words += ["--experts"] if design.experts else []
    return (*words, *_label(plan))


def _load(plan: Plan) -> tuple[str, ...]:
    """Levels and lengths."""
    points = plan.sweep.points
    first = points[0]
    words: list[str] = []
    if plan.sweep.matrix:
        cells = [(point.input_len, point.concurrency) for point in points]
        cells += [(cell.input_len, cell.concurrency) for cell in plan.sweep.skipped]
        words += ["--context", ",".join(dict.fromkeys(str(context) for context, _ in cells))]
        words += ["--concurrency", ",".join(dict.fromkeys(str(level) for _, level in cells))]
    elif first.rate is None:
        words += ["--concurrency", ",".join(str(point.concurrency) for point in points)]
    else:
        words += ["--rate", ",".join(f"{point.rate:g}" for point in points if point.rate is not None)]
        words += ["--concurrency", str(first.concurrency)]
    words += [] if plan.sweep.matrix else ["--input-len", str(first.input_len)]
    words += ["--output-len", str(first.output_len)]
    if first.duration_s is not None:
        words += ["--duration", f"{first.duration_s:g}"]
    elif first.rate is None and first.requests != _usual(first):
        words += ["--requests", str(first.requests)]
    return tuple(words)


def _usual(point: Point) -> int:
    return make_point(point.concurrency, input_len=1, output_len=1, seed=0).requests


def _client(run: Run) -> tuple[str, ...]:
    """Who sends the load, and what prompts."""
    plan, sending = run.plan, run.plan.sending
    if plan.driver != "light":
        return ("--driver", plan.driver)
    words = [] if _target(run)[0] == "--url" else ["--driver", "light"]
    flags = run.trials[0].driver.flags if run.trials else ()
    seen = next((flag.removeprefix("api=") for flag in flags if flag.startswith("api=")), None)
    api = (plan.design.api if plan.design else None) or (sending.api if sending else None) or seen
    words += ["--api", api] if api else []
    words += ["--client-processes", str(sending.processes)] if sending and sending.processes else []
    words += ["--from", sending.origin] if sending and sending.origin else []
    return (*words, "--dataset", plan.sweep.dataset_file or plan.sweep.dataset)


def _bench(run: Run) -> tuple[str, ...]:
    sweep, sending = run.plan.sweep, run.plan.sending
    words = [] if sweep.seed is None else ["--seed", str(sweep.seed)]
    targets = sweep.targets
    if targets is not None:
        words += ["--ttft", f"{targets.ttft_ms:g}"] if targets.ttft_ms else []
        words += ["--tpot", f"{targets.tpot_ms:g}"] if targets.tpot_ms else []
    words += ["--until-saturated"] if sweep.until_saturated else []
    return (*words, *(["--experts"] if sending and sending.experts else []))


def _label(plan: Plan) -> tuple[str, ...]:
    """Only a name that somebody chose."""
    recipes = dict.fromkeys(recipe.recipe for arm in plan.arms for recipe in arm.recipes)
    own = "-".join(recipes) or "pristine" if plan.what == "bench" else "-".join([plan.what, *recipes])
    return () if clean_label(own)[: len(plan.label)] == plan.label else ("--label", plan.label)
