"""What was not the same on two sides, so that a ratio would mean something else.

Owns: which differences are named, and which forbid a comparison. Refuses: to compare figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oeactl.core.experiment import LaunchDifference
from oeactl.core.launch import flags, options
from oeactl.core.redact import is_secret_name
from oeactl.core.run import Arm, Run, Trial
from oeactl.core.verdicts import Level, level_of

#: What a server draws or measures anew at every start, among what it reports as its arguments.
EACH_START = frozenset(
    {"launch_command", "random_seed", "startup_time", "status", "nccl_port", "forward_pass_metrics_ipc_name"}
)
_SHOWN = 4

#: (name, what it is, whether a comparison across it is refused)
_FACTS: tuple[tuple[str, Callable[[Trial], object], bool], ...] = (
    ("the host", lambda t: t.host.name, False),
    ("the GPUs", lambda t: [gpu.get("name") for gpu in t.host.gpus], True),
    ("the GPU driver", lambda t: sorted({gpu.get("driver_version") for gpu in t.host.gpus}, key=str), True),
    ("the CPUs", lambda t: t.host.cpus, True),
    ("the engine's version", lambda t: (t.engine.version, t.engine.git_commit), False),
    ("the model", lambda t: (t.model.path, t.model.revision, t.model.config_sha256), True),
    ("the server's environment", lambda t: t.server.environment, False),
    ("the load client", lambda t: (t.driver.name, t.driver.version), True),
)


def differences(one: Run, other: Run) -> tuple[str, ...]:
    """What besides the recipes differs between the first trials of two runs, by name."""
    if not one.trials or not other.trials:
        return ()
    a, b = one.trials[0], other.trials[0]
    prompts = ("the prompts",) if _other_prompts(one, other) else ()
    return (*told_apart(a, b), *prompts)


def told_apart(one: Trial, other: Trial) -> tuple[str, ...]:
    """What of host, engine, model, client and the server's launch is not the same in two trials, by name."""
    named = [name for name, fact, _ in _FACTS if fact(one) != fact(other)]
    changed = changed_arguments(one.server.args, other.server.args)
    if changed:
        named.append(f"the server's arguments: {listed(changed)}")
    return tuple(named)


def forbidding(one: Run, other: Run) -> tuple[str, ...]:
    """Those of the differences across which a ratio says nothing of the recipes: not without being told."""
    if not one.trials or not other.trials:
        return ()
    a, b = one.trials[0], other.trials[0]
    named = [name for name, fact, forbids in _FACTS if forbids and fact(a) != fact(b)]
    return (*named, *(["the prompts"] if _other_prompts(one, other) else []))


def _other_prompts(one: Run, other: Run) -> bool:
    """Whether a level that both have was measured with other prompts, or with some that nobody knows."""
    here, there = _prompts(one), _prompts(other)
    return any(
        None in here[level] | there[level] or not (here[level] <= there[level] or there[level] <= here[level])
        for level in here.keys() & there.keys()
    )


def _prompts(run: Run) -> dict[Level, set[str | None]]:
    """Of each level those of all pairs: a run that was cut short has a part of another's."""
    found: dict[Level, set[str | None]] = {}
    for trial in run.trials:
        for point in trial.points if run.plan.design is None or trial.pair is not None else ():
            found.setdefault(level_of(point.point), set()).add(point.workload_sha256)
    return found


def changed_arguments(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of arguments that two servers report differently, beside those that change at every start."""
    return tuple(key for key in sorted({*one, *other} - EACH_START) if one.get(key) != other.get(key))


def meant_arguments(arms: Sequence[Arm]) -> frozenset[str]:
    """Names, as a server reports them, of the arguments that these arms set by themselves or by a recipe."""
    words = [
        word for arm in arms for args in (arm.args, *(recipe.args for recipe in arm.recipes)) for word in args
    ]
    return frozenset(name.lstrip("-").replace("-", "_") for name in flags(words))


def launch_differences(
    argv: Sequence[str], env: Mapping[str, str], arms: Sequence[Arm]
) -> tuple[LaunchDifference, ...]:
    """In what the arms' servers are begun differently, secrets removed. argv, env: hosts.yaml's."""
    told = [
        {
            **options((*argv, *arm.args, *(word for recipe in arm.recipes for word in recipe.args))),
            **env,
            **arm.env,
            **{name: value for recipe in arm.recipes for name, value in recipe.env.items()},
        }
        for arm in arms
    ]
    names = list(dict.fromkeys(name for one in told for name in one))
    return tuple(
        LaunchDifference(
            name=name,
            values=tuple("***" if one.get(name) and is_secret_name(name) else one.get(name) for one in told),
        )
        for name in names
        if len({one.get(name) for one in told}) > 1
    )


def listed(names: tuple[str, ...]) -> str:
    """The first few of many names."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
