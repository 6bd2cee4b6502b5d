"""A run as one folder that a stranger can check and repeat: a project of its own, with the tool that made it.

Owns: what is in it and under which names, its manifest, hosts.yaml and script. Refuses: files (bytes come
in), a secret (records hold none), and to call pinned what is not.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from oeactl.core.adoption import secret_words
from oeactl.core.again import again
from oeactl.core.change import Change
from oeactl.core.hosts_text import entry_lines
from oeactl.core.inventory import LOCAL
from oeactl.core.launch import text_of
from oeactl.core.provenance import LaunchRecord
from oeactl.core.redact import REDACTED
from oeactl.core.run import AppliedRecipe, Arm, Run, Trial
from oeactl.core.series import counted, level_name

UNPINNED = "unpinned"
MANIFEST = "bundle.json"
SUMS = "SHA256SUMS"
SCRIPT = "run-again.sh"
TOOL = "tool"
_CONTAINERS = ("docker", "compose")
_HEAD = f"""\
#!/bin/sh
# Measures again what this bundle holds: PYTHON=venv/bin/python sh {SCRIPT}
# Further words go to the commands: --host NAME for another machine of hosts.yaml.
set -eu
python=$(command -v "${{PYTHON:-python3}}")
case $python in /*) ;; *) python=$PWD/$python ;; esac
cd "$(dirname "$0")"
oeactl() {{ PYTHONPATH="$PWD/{TOOL}" "$python" -m oeactl "$@"; }}
"""
_HOSTS = """\
# How the server was begun when this was measured, without what arms and recipes add. Change what is other on
# your machine: the interpreter, the model's place, the number of GPUs. To measure on another machine, add an
# entry with its name and 'address:', and run: sh run-again.sh --host NAME
default_host: '@local'
hosts:
"""


def bundle_files(
    run: Run,
    manifest: Mapping[str, Any],
    *,
    folder: Mapping[str, bytes],
    texts: Mapping[str, str],
    tool: Mapping[str, bytes],
    requirements: Sequence[str],
) -> dict[str, bytes]:
    """Every file of the bundle by its path. folder: the run's own files; texts: for people, name -> text.

    tool: the package that reads and makes runs; requirements: what it needs, a line each.
    """
    place = f"results/runs/{run.plan.run_id[:4]}/{run.plan.run_id}"
    files = {f"{place}/{name}": data for name, data in folder.items()}
    for change in run.changes:
        files |= _of_change(change)
    files |= {name: text.encode() for name, text in texts.items()}
    files |= {f"{TOOL}/{name}": data for name, data in tool.items()}
    files[f"{TOOL}/requirements.txt"] = "".join(f"{line}\n" for line in requirements).encode()
    files["hosts.yaml"] = hosts_of(run).encode()
    script = script_of(run)
    if script is not None:
        files[SCRIPT] = script.encode()
    told = json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    files[MANIFEST] = f"{told}\n".encode()
    files[SUMS] = _sums((hashlib.sha256(data).hexdigest(), name) for name, data in sorted(files.items()))
    return files


def _of_change(change: Change) -> dict[str, bytes]:
    """The difference, the sums of the files before and after it, the recipes' folders."""
    before = _sums((file.before_sha256, file.path) for file in change.files)
    after = _sums((file.after_sha256, file.path) for file in change.files)
    return {
        f"changes/{change.arm}.diff": change.diff.encode(),
        f"changes/{change.arm}.before.sha256": before,
        f"changes/{change.arm}.after.sha256": after,
        **{
            f"recipes/{recipe.recipe}/{name}": data
            for recipe in change.recipes
            for name, data in recipe.files.items()
        },
    }


def _sums(rows: Iterable[tuple[str, str]]) -> bytes:
    """As ``sha256sum -c`` reads it; a file that is not there has no line."""
    return "".join(f"{sha}  {name}\n" for sha, name in rows if sha).encode()


def manifest_of(run: Run, raw_lost: Sequence[str]) -> dict[str, Any]:
    """What is in it, for programs. raw_lost: hashes of raw rows that are not on this machine."""
    trial = _measured(run)
    launch = trial.server.launch if trial else None
    in_container = launch is not None and launch.manager in _CONTAINERS
    measured = next((one for one in counted(run) if one.points), None)
    return {
        "kind": "bundle",
        "schema_version": 1,
        "run_id": run.plan.run_id,
        "what": run.plan.what,
        "oeactl_version": run.plan.oeactl_version,
        "command": again(run),
        "engine": msgspec.to_builtins(trial.engine) if trial else None,
        "model": {
            "path": trial.model.path if trial else None,
            "revision": (trial.model.revision if trial else None) or UNPINNED,
            "config_sha256": trial.model.config_sha256 if trial else None,
        },
        "image": {
            "name": launch.image if launch else None,
            "digest": (launch.image_digest if launch else None) or (UNPINNED if in_container else None),
        },
        "arms": [_arm(run, arm) for arm in run.plan.arms],
        "load": [
            {"level": level_name(point.point), "argv": point.argv, "workload_sha256": point.workload_sha256}
            for point in (measured.points if measured else ())
        ],
        "raw_lost": list(raw_lost),
        "secrets_left_out": _left_out(launch),
    }


def _arm(run: Run, arm: Arm) -> dict[str, Any]:
    change = next((one for one in run.changes if one.arm == arm.name), None)
    trial = _measured(run, arm.name)
    launch = trial.server.launch if trial else None
    return {
        "name": arm.name,
        "described": arm.described,
        "recipes": msgspec.to_builtins(arm.recipes),
        "launch": {**msgspec.to_builtins(launch), "words": list(launch.words)} if launch else None,
        "environment": trial.server.environment if trial else {},
        "diff": f"changes/{arm.name}.diff" if change else None,
        "files": msgspec.to_builtins(change.files) if change else [],
    }


def _measured(run: Run, arm: str | None = None) -> Trial | None:
    """The first trial (of an arm) that measured anything, else the first."""
    trials = [trial for trial in run.trials if arm in (None, trial.arm)]
    return next((trial for trial in trials if trial.points), next(iter(trials), None))


def _left_out(launch: LaunchRecord | None) -> list[str]:
    """Options of the launch whose values were secrets."""
    argv = launch.argv if launch else ()
    behind = {word for word, value in pairwise(argv) if value == REDACTED}
    within = {word.partition("=")[0] for word in argv if word != REDACTED and REDACTED in word}
    return sorted(behind | within)


def hosts_of(run: Run) -> str:
    """hosts.yaml: this machine, its server begun as when it was measured."""
    entry = _entry(run)
    return _HOSTS + "".join(f"{line}\n" for line in entry_lines(LOCAL, entry) or (f"  '{LOCAL}': {{}}",))


def _entry(run: Run) -> dict[str, Any]:
    first = run.plan.arms[0]
    trial = _measured(run, first.name)
    launch = trial.server.launch if trial else None
    if trial is None or launch is None:
        return {}
    python = launch.python
    added = len(first.args) + sum(len(recipe.args) for recipe in first.recipes)
    env = {name: value for name, value in trial.server.environment.items() if name not in first.env}
    server: dict[str, Any] = {
        "url": trial.server.url,
        **({"gpus": trial.server.gpus} if trial.server.gpus is not None else {}),
        **({"cwd": launch.cwd} if launch.cwd else {}),
        **({"env": env} if env else {}),
    }
    if launch.manager == "commands":
        stop = list(launch.stop) or ["echo", "write here how it is stopped"]  # records once held none
        server |= {"manager": "commands", "start": list(launch.argv), "stop": stop}
        server |= {"status": list(launch.status)} if launch.status else {}
    else:
        words, _ = secret_words(launch.words[: len(launch.words) - added], _left_out(launch))
        python, *argv = words
        server |= {"argv": argv, "log": f"/tmp/{run.plan.run_id}.log"}
    root = {"root": launch.engine_root} if launch.engine_root else {}
    return {"engine": {"python": python, **root}, "server": server}


def script_of(run: Run) -> str | None:
    """What ``run-again.sh`` does; None where no one command makes these arms.

    A bench measures what runs, so its server is started first, with the recipes that were on it.
    """
    words = again(run, host=LOCAL)
    if words is None:
        return None
    lines = []
    if run.plan.what == "bench" and "--url" not in words:
        lines += [[*_patch(recipe), "--yes"] for recipe in run.plan.arms[0].recipes]
        lines.append(["oeactl", "start", "--host", LOCAL])
    lines.append(list(words))
    return _HEAD + "".join(f'{shlex.join(line)} "$@"\n' for line in lines)


def _patch(recipe: AppliedRecipe) -> list[str]:
    sets = (f"{name}={text_of(value)}" for name, value in sorted(recipe.parameters.items()))
    told = [word for text in sets for word in ("--set", text)]
    return ["oeactl", "patch", "--host", LOCAL, "--recipe", recipe.recipe, *told]
