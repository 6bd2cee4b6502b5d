"""The exact commands behind a run: its own, each arm's server, the load client's.

Owns: their shell text. Refuses: a secret (records hold none), and to make up a launch that was not kept.
"""

from __future__ import annotations

import shlex

from oeactl.core.again import again
from oeactl.core.run import Run
from oeactl.core.series import counted, level_name, levels


def own_command(run: Run) -> str | None:
    """The command that makes the run again; None where no one command does."""
    words = again(run)
    return None if words is None else shlex.join(words)


def no_command(run: Run) -> str:
    """Why there is none."""
    if run.plan.what == "import":
        files = ", ".join(f"{one.name} (sha256 {one.sha256[:12]}…)" for one in run.plan.imported)
        return f"Another tool measured this; oeactl imported {files}."
    return "No one command makes these arms; `plan.json` of the run names each."


def launch_command(run: Run, arm: str) -> str | None:
    """How an arm's server is begun, environment first; None where that was not kept."""
    for trial in run.trials:
        launch = trial.server.launch
        if trial.arm == arm and launch is not None:
            env = [f"{name}={shlex.quote(value)}" for name, value in sorted(trial.server.environment.items())]
            return " ".join([*env, shlex.join(launch.words)])
    return None


def client_commands(run: Run) -> tuple[tuple[str, str], ...]:
    """(level, command) of the first trial that measured it, lightest first; of a client that is a command."""
    found = []
    for level in levels(run):
        name = level_name(level)
        argv = next(
            (
                point.argv
                for trial in counted(run)
                for point in trial.points
                if point.argv[:1] == ("-m",) and level_name(point.point) == name
            ),
            None,
        )
        if argv:
            found.append((name, shlex.join(("python3", *argv))))
    return tuple(found)
