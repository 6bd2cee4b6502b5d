"""The part of a report that lets a stranger check and repeat a run: plan, change, ground, commands.

Owns: those sections. Refuses: a secret (records hold none), and to call a revision pinned that is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from oeactl.core.change import Change
from oeactl.core.compare import changed_arguments
from oeactl.core.run import Run, Trial
from oeactl.core.series import counted, level_name
from oeactl.render.commands import client_commands, launch_command, no_command, own_command
from oeactl.render.experiment import duration, sees
from oeactl.render.markup import Child, Markup, el, joined, table

UNPINNED = "unpinned"
_MARKS = (("+++", "f"), ("---", "f"), ("diff ", "f"), ("@@", "h"), ("+", "a"), ("-", "d"))


def plan_part(run: Run) -> Markup:
    """What was fixed before the first trial, and the order of the trials."""
    plan, design = run.plan, run.plan.design
    sweep = plan.sweep
    points = sweep.points
    facts: list[tuple[str, Child]] = [
        ("levels", ", ".join(dict.fromkeys(level_name(point) for point in points))),
        (
            "tokens in / out",
            " · ".join(dict.fromkeys(f"{one.input_len} / {one.output_len}" for one in points)),
        ),
        ("requests a level", ", ".join(dict.fromkeys(str(point.requests) for point in points))),
        (
            "prompts",
            sweep.dataset
            + (f" ({sweep.dataset_file})" if sweep.dataset_file else "")
            + ("" if sweep.seed is None else f", seed {sweep.seed}"),
        ),
    ]
    if design is not None:
        looks = f"; looks after pairs {', '.join(map(str, design.looks))}" if design.looks else ""
        facts += [
            ("pairs of restarts", f"{design.pairs}{looks}"),
            ("primary", design.primary),
            (
                "analysis",
                f"{design.analysis}, alpha {design.alpha:g} shared by {len(plan.arms) - 1} comparison(s)",
            ),
            ("margin", f"{design.margin:.1%}"),
            ("smallest effect", "; ".join(sees(design, len(plan.arms)))),
            ("orders drawn from", f"seed {design.seed}"),
            *([("budget", duration(design.budget_s))] if design.budget_s else []),
            ("compilation caches", "kept" if design.caches == "keep" else "wiped before every start"),
            ("warm-up start of each arm", "yes" if design.warm_sweep else "no"),
            ("host left", design.leave),
        ]
    made = [_facts(facts)]
    if design is not None:
        order = ", ".join(one.name for one in plan.trials)
        made.append(el("p", f"Order of the trials: {order}.", class_="soft"))
    return joined(made)


def change_part(run: Run) -> Markup:
    """Each arm's difference from the engine as it was, the recipe it came from, and the files' hashes."""
    changing = [arm for arm in run.plan.arms if not arm.plain]
    if not changing:
        seen = not run.trials or run.trials[0].engine.root is not None
        told = (
            "Nothing: every trial ran the engine as it was." if seen else "Not known: nobody saw its files."
        )
        return el("p", told, class_="soft")
    kept = {change.arm: change for change in run.changes}
    made: list[Child] = []
    for arm in changing:
        made.append(el("h3", f"{arm.name}: {arm.described}"))
        change = kept.get(arm.name)
        made += [
            el("p", el("b", f"{one.title}. "), one.summary) for one in (change.recipes if change else ())
        ]
        launch = [*arm.args, *(word for one in arm.recipes for word in one.args)]
        added = {**arm.env, **{name: value for one in arm.recipes for name, value in one.env.items()}}
        launch += [f"{name}={value}" for name, value in added.items()]
        if launch:
            made.append(el("p", "Added to the launch: ", el("code", " ".join(launch))))
        if change is not None and change.files:
            made += list(_files(run, change))
        elif arm.recipes and not launch:
            made.append(el("p", "The difference was not kept with this run.", class_="soft"))
    return joined(made)


def _files(run: Run, change: Change) -> Iterator[Markup]:
    yield _facts(
        [
            (name, el("code", value))
            for file in change.files
            for name, value in (
                ("file", file.path),
                ("sha256 before", file.before_sha256 or "there was none"),
                ("sha256 after", file.after_sha256 or "there is none"),
            )
        ]
    )
    plus = sum(line.startswith("+") and not line.startswith("+++") for line in change.diff.splitlines())
    minus = sum(line.startswith("-") and not line.startswith("---") for line in change.diff.splitlines())
    yield el(
        "details",
        el("summary", f"The difference: {plus} lines more, {minus} fewer"),
        el("pre", el("code", [_line(line) for line in change.diff.splitlines()]), class_="diff"),
        open="" if len(run.changes) == 1 else None,
    )


def _line(line: str) -> Markup:
    class_ = next((class_ for start, class_ in _MARKS if line.startswith(start)), None)
    return el("span", line or " ", class_=class_)


def ground_part(run: Run) -> Markup:
    """Host, engine, model, server, client: of the first trial, and what later ones had otherwise."""
    trial = next((one for one in run.trials if one.points), next(iter(run.trials), None))
    if trial is None:
        return Markup("")
    facts = [(name, words) for name, words in _ground(trial)]
    made: list[Child] = [_facts(facts)]
    if trial.host.gpus:
        names = list(dict.fromkeys(key for gpu in trial.host.gpus for key in gpu))
        rows = [[gpu.get(name, "-") for name in names] for gpu in trial.host.gpus]
        made += [el("h3", "GPUs"), table(names, rows, left=tuple(range(len(names))))]
    made += _arguments(run, trial)
    return joined(made)


def _ground(trial: Trial) -> Iterator[tuple[str, Child]]:
    host, engine, model, driver, launch = (
        trial.host,
        trial.engine,
        trial.model,
        trial.driver,
        trial.server.launch,
    )
    memory = f", {host.memory_bytes / 2**30:.0f} GiB" if host.memory_bytes else ""
    yield (
        "host",
        f"{host.name} ({host.hostname}): {host.cpus or '?'} CPUs{memory}, Linux {host.kernel or 'unknown'}",
    )
    gpus = sorted({gpu.get("name", "GPU") for gpu in host.gpus})
    yield "GPUs", f"{len(host.gpus)} x {', '.join(gpus)}" if gpus else "none seen"
    yield "used by the server", "not known" if trial.server.gpus is None else str(trial.server.gpus)
    yield "engine", f"{engine.package} {engine.version or 'of unknown version'}"
    if engine.git_commit:
        dirty = (
            f", uncommitted difference {engine.git_dirty_sha256}" if engine.git_dirty_sha256 else ", clean"
        )
        yield "engine's commit", el("code", f"{engine.git_commit}{dirty}")
    yield "engine's folder", el("code", engine.root or "unknown")
    yield "Python", engine.python_version or "unknown"
    yield "model", model.path or model.served_name or "unknown"
    yield "model revision", model.revision or UNPINNED
    if model.config_sha256:
        yield "sha256 of its config", el("code", model.config_sha256)
    yield "quantization", model.quantization or "none said"
    yield "load client", f"{driver.name} {driver.version or ''} ({driver.program})".replace("  ", " ")
    yield "clock of the host", f"{trial.clock_offset_s:+.3f} s against ours"
    if launch is not None:
        yield "begun by", launch.manager
        if launch.manager == "docker":
            yield (
                "image",
                el("code", f"{launch.image or 'not told'}, {launch.image_digest or 'digest not told'}"),
            )
    for name, value in trial.server.environment.items():
        yield name, el("code", value)


def _arguments(run: Run, trial: Trial) -> list[Child]:
    """Where the arms' servers report other arguments, then all of the first one's."""
    args = trial.server.args
    made: list[Child] = []
    for arm in run.plan.arms:
        other = next((one for one in counted(run) if one.arm == arm.name and one.points), None)
        if other is None or other.arm == trial.arm:
            continue
        changed = changed_arguments(args, other.server.args)
        if changed:
            rows = [[name, _json(args.get(name)), _json(other.server.args.get(name))] for name in changed]
            heads = ("argument", trial.arm, other.arm)
            made += [
                el("h3", "Arguments that the servers report differently"),
                table(heads, rows, left=(0, 1, 2)),
            ]
    if args:
        told = json.dumps(args, indent=1, sort_keys=True, ensure_ascii=False)
        summary = el("summary", f"All {len(args)} arguments as the server reports them ({trial.name})")
        made.append(el("details", summary, el("pre", told, class_="wrap")))
    return made


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def again_part(run: Run) -> Markup:
    """The command of the run, how each arm's server is begun, and the client's own."""
    own = own_command(run)
    made: list[Child] = []
    if own is None:
        made.append(el("p", no_command(run), class_="soft"))
    else:
        made.append(el("pre", own, class_="wrap"))
    made.append(
        el("p", el("code", f"oeactl results bundle {run.plan.run_id}"), " packs all that a stranger needs.")
    )
    for arm in run.plan.arms:
        launch = launch_command(run, arm.name)
        if launch:
            made += [el("h3", f"{arm.name}: how its server is begun"), el("pre", launch, class_="wrap")]
    clients = client_commands(run)
    if clients:
        told = "\n".join(command for _, command in clients)
        made += [
            el("h3", "The load client"),
            el("details", el("summary", "One command a level"), el("pre", told, class_="wrap")),
        ]
    return joined(made)


def _facts(rows: list[tuple[str, Child]]) -> Markup:
    return el(
        "div",
        el(
            "table",
            el(
                "tbody",
                [el("tr", el("td", name, class_="t"), el("td", value, class_="t")) for name, value in rows],
            ),
        ),
        class_="scroll facts",
    )
