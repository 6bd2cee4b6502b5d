"""The README of a bundle: what it holds and how a stranger measures it again, with oeactl or by hand.

Owns: its words. Refuses: to leave out what is missing.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from oeactl.core.bundle import MANIFEST, SCRIPT, SUMS, TOOL
from oeactl.core.run import Run
from oeactl.render.commands import no_command


def bundle_readme(run: Run, manifest: Mapping[str, Any]) -> str:
    """manifest: as ``core.bundle.manifest_of`` made it."""
    parts = [
        f"# {run.plan.run_id}",
        "",
        "Everything that oeactl kept of one measurement, and oeactl itself. `report.html` tells it with",
        f"figures, `{MANIFEST}` tells it to programs, `sha256sum -c {SUMS}` checks every file.",
        "",
        "## What it ran on",
        "",
        *_ground(run, manifest),
        "",
        "## Again, with oeactl",
        "",
        *_again(run, manifest),
        "",
        "## By hand",
        "",
        *_by_hand(manifest),
        f"- the load, level by level: `load` in `{MANIFEST}`",
    ]
    return "\n".join(parts) + "\n"


def _ground(run: Run, manifest: Mapping[str, Any]) -> Iterator[str]:
    model, image, engine = manifest["model"], manifest["image"], manifest["engine"] or {}
    yield f"- model {model['path'] or 'unknown'}, revision {model['revision']}"
    if image["digest"]:
        yield f"- image {image['name'] or 'unknown'}, digest {image['digest']}"
    version = engine.get("version") or "of unknown version"
    commit = f", commit {engine['git_commit']}" if engine.get("git_commit") else ""
    yield f"- engine {engine.get('package') or 'unknown'} {version}{commit}"
    if engine.get("git_dirty_sha256"):
        yield f"- not here: the engine's uncommitted difference, sha256 {engine['git_dirty_sha256']}"
    for arm in manifest["arms"]:
        if arm["launch"] is None:
            yield f"- not here: how the server of {arm['name']} was begun, which this run did not keep"
        if arm["recipes"] and not arm["diff"]:
            yield f"- not here: what {arm['described']} changes, which this run did not keep"
    for word in manifest["secrets_left_out"]:
        yield f"- not here: the value of {word}, a secret, which hosts.yaml takes from a variable of yours"
    yield from (f"- not here: raw rows {sha}" for sha in manifest["raw_lost"])
    sweep = run.plan.sweep
    if sweep.dataset_file:
        yield f"- not here: the prompts, {sweep.dataset_file}, sha256 {sweep.dataset_sha256}"


def _again(run: Run, manifest: Mapping[str, Any]) -> Iterator[str]:
    if manifest["command"] is None:
        yield no_command(run)
        return
    yield "1. `hosts.yaml` says how the server was begun: change there what is other on your machine."
    yield f"2. `python3 -m venv venv && venv/bin/pip install -r {TOOL}/requirements.txt`"
    yield f"3. `PYTHON=venv/bin/python sh {SCRIPT}`: the new run lies beside the old one in `results/`."
    yield f"4. `PYTHONPATH={TOOL} venv/bin/python -m oeactl results list`"


def _by_hand(manifest: Mapping[str, Any]) -> Iterator[str]:
    """The files are named from the folder that holds the engine's package; DIR is this one."""
    for arm in manifest["arms"]:
        name, launch = arm["name"], arm["launch"]
        if arm["diff"]:
            yield f"- {name}, in the folder that holds the engine's package (DIR is this folder):"
            yield f"  `sha256sum -c DIR/changes/{name}.before.sha256 && patch -p1 < DIR/{arm['diff']}"
            yield f"  && sha256sum -c DIR/changes/{name}.after.sha256`"
        if launch:
            env = [f"{key}={shlex.quote(value)}" for key, value in sorted(arm["environment"].items())]
            yield f"- {name}'s server: `{' '.join([*env, shlex.join(launch['words'])])}`"
