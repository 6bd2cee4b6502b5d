"""A planned, a made and an undone change, as a person reads it and as a program does.

Owns: the wording of patch and revert. Refuses: to print, and to decide what is well.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oeactl.render.diff import coloured, unified_diff

if TYPE_CHECKING:
    from oeactl.core.host import Layer, Survey
    from oeactl.core.outcomes import OnRecord, Patched, Reverted, Served
    from oeactl.core.plan import Planned, PlannedFile
    from oeactl.core.proof import Verdict


def parameters(values: dict[str, Any]) -> str:
    """``k0=4 min_tokens=2``."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def named(layer: Layer) -> str:
    """``oea (k0=4)``; of a recipe without parameters its id alone."""
    return f"{layer.recipe} ({parameters(layer.parameters)})" if layer.parameters else layer.recipe


def launch_words(layer: Layer) -> str:
    """What a recipe adds to the server's launch, as a shell would take it; '' for nothing."""
    return shlex.join([*layer.args, *(f"{name}={value}" for name, value in layer.env.items())])


def planned_lines(plan: Planned, survey: Survey, *, whole: bool) -> Any:
    """The plan: engine, recipe, files with their line counts; with ``whole`` the difference and hashes."""
    from rich.text import Text

    engine = survey.engine
    text = Text()
    text.append(f"{engine.package} {engine.version or '(no version)'}", "bold")
    text.append(f" in {engine.root}{'' if plan.listed else ', a file that no release is known by'}\n")
    if engine.git_commit:
        changed = f", with local changes {engine.git_dirty_sha256[:12]}" if engine.git_dirty_sha256 else ""
        text.append(f"  git commit {engine.git_commit}{changed}\n")
    text.append(f"{plan.recipe} r{plan.revision}", "bold")
    text.append(
        f"{'  '.join(['', *filter(None, [parameters(plan.parameters)]), f'plan {plan.digest[:12]}'])}\n"
    )
    for first, *copies in _alike(plan.files):
        diff = unified_diff(first.path, first.before, first.after)
        added, removed = _counts(diff)
        text.append(f"  +{added}", "green")
        text.append(f" -{removed}", "red")
        text.append(f"  {first.path}\n")
        for copy in copies:
            text.append(f"{'':<{len(f'  +{added} -{removed}  ')}}{copy.path}, the same\n")
        if whole:
            text.append("\n")
            text.append(coloured(diff))
            text.append("\n")
    if words := launch_words(plan.layer):
        text.append(f"  the server is started with {words}\n")
    text.rstrip()
    return text


def _alike(files: Sequence[PlannedFile]) -> list[list[PlannedFile]]:
    """The copies of a file on the nodes of one server together."""
    groups: dict[tuple[str, ...], list[PlannedFile]] = {}
    for file in files:
        groups.setdefault((file.module, file.before_sha256, file.after_sha256), []).append(file)
    return list(groups.values())


def _counts(diff: str) -> tuple[int, int]:
    lines = diff.splitlines()[2:]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def patched_lines(outcome: Patched, host: str) -> str:
    """How a patch ended, in a few lines."""
    layer = outcome.plan.layer
    values = f" ({parameters(layer.parameters)})" if layer.parameters else ""
    what = f"{layer.recipe} r{layer.revision}{values}"
    if outcome.status == "already applied":
        lines = [f"already applied on {host}: {what}; nothing was written"]
        lines += [f"  proof: {verdict.summary}" for verdict in outcome.verdicts if verdict.proven]
    elif outcome.status == "dry-run":
        lines = [f"dry run on {host}: nothing was written"]
    else:
        lines = [f"patched {host}: {what}", *_live_lines(outcome.live, host), *_proof_lines(outcome.verdicts)]
    return "\n".join([*lines, *_notes(outcome.notes)])


def _live_lines(live: str, host: str) -> list[str]:
    if live == "old code":
        return [f"  on disk only: a running server still runs the old code; oeactl restart --host {host}"]
    if live == "no server":
        return ["  on disk only: hosts.yaml has no server for this host"]
    return [f"  server {live}"]


def _proof_lines(verdicts: Sequence[Verdict]) -> list[str]:
    lines = []
    for verdict in verdicts:
        lines.append(f"  {'proof' if verdict.proven else 'not measured'}: {verdict.summary}")
        lines += [f"    {line}" for line in verdict.lines()]
    return lines


def _notes(notes: Sequence[str]) -> list[str]:
    return [f"  note: {note}" for note in notes]


def patched_document(outcome: Patched) -> dict[str, Any]:
    """Patch's outcome as one JSON document; each file with its hashes and difference."""
    layer = outcome.plan.layer
    return {
        "status": outcome.status,
        "recipe": layer.recipe,
        "revision": layer.revision,
        "parameters": layer.parameters,
        "digest": layer.digest,
        "operation": outcome.operation or None,
        "files": [
            {
                "module": file.module,
                "path": file.path,
                "before_sha256": file.before_sha256,
                "after_sha256": file.after_sha256,
                "pristine_sha256": file.pristine_sha256,
                "diff": unified_diff(file.path, file.before, file.after),
            }
            for file in getattr(outcome.plan, "files", ())
        ],
        "live": outcome.live,
        "proof": outcome.verdicts,
        "notes": outcome.notes,
    }


def reverted_lines(outcome: Reverted, host: str, others: Sequence[OnRecord]) -> str:
    """How a revert ended; at its end the other hosts that are still patched as far as is known here."""
    if outcome.status == "nothing to revert":
        why = "that recipe is not on it" if outcome.left else "every file is the original"
        lines = [f"nothing to revert on {host}: {why}"]
    elif outcome.status == "gone by upgrade":
        lines = [f"gone by upgrade on {host}: {', '.join(outcome.recipes)}; the record is closed"]
    else:
        back = "" if outcome.left or not outcome.files else "; the original bytes are back"
        lines = [f"reverted {host}: {', '.join(outcome.recipes)}{back}"]
        lines += [f"  {path}" for path in outcome.files]
        lines += _reverted_live(outcome.live, host)
    if outcome.left:
        lines.append(f"  stays applied: {', '.join(map(named, outcome.left))}")
    lines += [*_proof_lines(outcome.verdicts), *_notes(outcome.notes)]
    if others:
        lines.append("still patched, by the record here:")
        lines += [f"  {one.host}: {one.recipe}, since {one.at} ({one.project})" for one in others]
    return "\n".join(lines)


def _reverted_live(live: str, host: str) -> list[str]:
    return {
        "restarted": ["  server restarted, and it answers"],
        "down": ["  no server was running"],
        "old code": [
            f"  on disk only: a running server keeps the patched code; oeactl restart --host {host}"
        ],
    }.get(live, [])


def served_lines(outcome: Served, host: str) -> str:
    """How start, stop or restart ended."""
    pid = f", pid {outcome.pid}" if outcome.pid else ""
    seconds = f"; it answered after {outcome.seconds:.0f} s" if outcome.seconds is not None else ""
    first = f"{outcome.status} on {host}{pid}{seconds}"
    return "\n".join([first, *_proof_lines(outcome.verdicts), *_notes(outcome.notes)])


def reverted_document(outcome: Reverted, others: Sequence[OnRecord]) -> dict[str, Any]:
    """Revert's outcome as one JSON document."""
    return {
        "status": outcome.status,
        "recipes": outcome.recipes,
        "files": outcome.files,
        "left": [{"recipe": layer.recipe, "parameters": layer.parameters} for layer in outcome.left],
        "live": outcome.live,
        "proof": outcome.verdicts,
        "notes": outcome.notes,
        "still_patched_elsewhere": others,
    }
