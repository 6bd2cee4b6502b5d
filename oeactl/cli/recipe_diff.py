"""``oeactl recipe import|export``: recipes from the differences people have, and back."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import AllowCodeOption, Call, NamedRecipeArgument, SetOption, command
from oeactl.cli.engine_here import EngineOption, RootOption, checked, engine_here
from oeactl.cli.recipe_author import shown_here

if TYPE_CHECKING:
    from oeactl.core.difference import FileDifference
    from oeactl.core.host import Survey
    from oeactl.core.import_recipe import FileChange

PACKAGE = "sglang"
DiffArgument = Annotated[
    Path | None, typer.Argument(metavar="FILE.diff", help="A unified difference: git diff, format-patch.")
]
IdOption = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="The recipe's id; else of the file.")
]
EditedOption = Annotated[
    Path | None, typer.Option("--from-edited", metavar="FILE", help="A module edited by hand, whole.")
]
PristineOption = Annotated[
    Path | None,
    typer.Option(
        "--pristine", metavar="FILE", help="With --from-edited: as it was, if not the engine's own."
    ),
]
ModuleOption = Annotated[
    str | None, typer.Option("--module", metavar="NAME", help="With --from-edited: which module it is.")
]
DiffOption = Annotated[bool, typer.Option("--diff", help="As a unified difference, the only form there is.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there, not on stdout.")
]


@command(
    "oeactl recipe import fix.diff --engine sglang==0.5.16",
    "oeactl recipe import fix.diff --id warm-sampler --root /root/sglang/python",
    "oeactl recipe import --from-edited topk.py --module sglang.srt.layers.moe.topk --engine sglang==0.5.16",
    "oeactl recipe import --from-edited topk.py --pristine topk.orig.py --module sglang.srt.layers.moe.topk",
    name="import",
)
def import_diff(
    call: Call,
    diff: DiffArgument = None,
    id: IdOption = None,
    engine: EngineOption = None,
    root: RootOption = None,
    edited: EditedOption = None,
    pristine: PristineOption = None,
    module: ModuleOption = None,
) -> int:
    """Make a recipe of a difference, or of an edited file: places by meaning, guards, cases.

    The engine is the one that the difference was made for: there the recipe gives the bytes that git apply
    gives. Elsewhere it applies or refuses. What could not be placed is listed, written into the recipe, and
    ends with exit code 3: such a recipe is not applied until it is finished by hand.
    """
    from oeactl.core.import_recipe import import_recipe
    from oeactl.core.recipe import ID_RULE, is_id
    from oeactl.edges.config import write_recipe
    from oeactl.errors import UsageError
    from oeactl.render.recipe import imported_lines

    if (diff is None) == (edited is None):
        raise UsageError("a difference, or an edited file?", hint="FILE.diff, or --from-edited FILE")
    origin = diff or edited or Path()
    name = id or _id_of(origin)
    if not is_id(name):
        raise UsageError(ID_RULE, where=f"--id {name}")
    if diff is not None:
        title, changes, outside, version = _from_diff(diff, engine, root)
    else:
        outside = ()
        title, changes, version = _from_edited(edited or Path(), pristine, module, engine, root)
    made = import_recipe(
        name,
        changes,
        title=title,
        summary=f"Imported from {origin.name}{f' for {PACKAGE} {version}' if version else ''}.",
        package=PACKAGE,
        version=version,
    )
    folder = (call.root or Path.cwd()) / "recipes" / name
    write_recipe(folder, made.files)
    call.emit(
        {"folder": str(folder), "edits": made.edits, "left": made.left, "outside": outside},
        lambda: imported_lines(shown_here(folder), made, outside, _engine_words(engine, root)),
    )
    return 3 if made.left else 0


def _engine_words(engine: str | None, root: Path | None) -> str:
    """The engine that was named, as the next command names it."""
    return shlex.join(["--root", str(root)] if root else ["--engine", engine or f"{PACKAGE}==VERSION"])


def _from_diff(
    path: Path, engine: str | None, root: Path | None
) -> tuple[str, list[FileChange], tuple[str, ...], str | None]:
    """Title, the engine's files before and after, files outside the engine, and the engine's version."""
    from oeactl.core.difference import read_difference, subject

    data = _read(path)
    files = read_difference(data, str(path))
    candidates = {file.name: _candidates(file.name) for file in files}
    wanted = sorted({name for names in candidates.values() for name in names})
    outside = tuple(name for name, names in candidates.items() if not names)
    with engine_here(PACKAGE, engine, root, wanted) as (agent_files, request):
        survey = agent_files.survey(request)
    changes = [_change(file, candidates[file.name], survey) for file in files if candidates[file.name]]
    return subject(data) or path.stem, changes, outside, survey.engine.version


def _candidates(name: str) -> list[str]:
    """The paths in the engine that a difference's file may mean: ``a/python/sglang/srt/x.py``."""
    parts = name.split("/")
    return [
        "/".join(parts[at:])
        for at, part in enumerate(parts)
        if part == PACKAGE and at + 1 < len(parts) and not {"", ".", ".."} & set(parts[at:])
    ]


def _change(file: FileDifference, names: Sequence[str], survey: Survey) -> FileChange:
    from oeactl.core.difference import DoesNotApply, applied
    from oeactl.core.import_recipe import FileChange
    from oeactl.errors import Refused

    states = {state.module: state for state in survey.files}
    there = [name for name in names if not states[name].missing]
    path = there[0] if there else names[-1]
    before = states[path].data if there else None
    if file.odd or file.new is None:
        return FileChange(path=path, before=before, after=None, odd=file.odd)
    if file.old is None and before is not None:
        raise Refused("the difference adds a file that is there already", where=states[path].path)
    if file.old is not None and before is None:
        raise Refused(
            f"{survey.engine.package} {survey.engine.version} has no file {path}",
            hint="name the engine that the difference was made for: --engine or --root",
        )
    try:
        return FileChange(path=path, before=before, after=applied(before or b"", file.hunks))
    except DoesNotApply as error:
        raise Refused(
            f"the difference does not apply to {survey.engine.package} {survey.engine.version}: {error}",
            where=f"{states[path].path}:{error.line}",
            hint="name the engine that it was made for: --engine or --root",
        ) from error


def _from_edited(
    edited: Path, pristine: Path | None, module: str | None, engine: str | None, root: Path | None
) -> tuple[str, list[FileChange], str | None]:
    """Title, the module before and after, and the engine's version where one is named."""
    from oeactl.core.import_recipe import FileChange
    from oeactl.errors import UsageError

    if (pristine is None) == (engine is None and root is None):
        raise UsageError(
            "--from-edited goes with the module as it was",
            where=str(edited),
            hint="--engine sglang==0.5.16, --root FOLDER, or --pristine FILE",
        )
    after = _read(edited)
    if module is not None:
        names = [f"{module.replace('.', '/')}{end}" for end in (".py", "/__init__.py")]
    else:
        files = [edited] if pristine is None else [edited, pristine]
        names = [name for file in files for name in _candidates(file.absolute().as_posix())][-1:]
    if not names:
        raise UsageError(
            "which module is it?", where=str(edited), hint=f"--module {PACKAGE}.srt.layers.sampler"
        )
    if pristine is not None:
        return edited.stem, [FileChange(path=names[0], before=_read(pristine), after=after)], None
    path, before, version = _engines_own(names, engine, root)
    return edited.stem, [FileChange(path=path, before=before, after=after)], version


def _engines_own(
    names: Sequence[str], engine: str | None, root: Path | None
) -> tuple[str, bytes, str | None]:
    """The first of ``names`` that the engine has, its bytes, and the engine's version."""
    from oeactl.errors import Refused

    with engine_here(PACKAGE, engine, root, names) as (files, request):
        survey = files.survey(request)
    for state in survey.files:
        if not state.missing and state.data is not None:
            return state.module, state.data, survey.engine.version
    raise Refused(f"{PACKAGE} {survey.engine.version} has no file {names[0]}", where=survey.engine.root)


def _read(path: Path) -> bytes:
    from oeactl.errors import UsageError

    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error


def _write(path: Path, data: bytes) -> None:
    from oeactl.errors import UsageError

    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(path)) from error


def _id_of(path: Path) -> str:
    word = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")
    return word if word[:1].isalpha() else f"imported-{word}".rstrip("-")


@command(
    "oeactl recipe export oea --diff --engine sglang==0.5.16 > oea.diff",
    "oeactl recipe export oea --diff --root /root/sglang/python -o oea.diff",
    name="export",
)
def export_diff(
    call: Call,
    recipe: NamedRecipeArgument,
    diff: DiffOption = True,
    engine: EngineOption = None,
    root: RootOption = None,
    sets: SetOption = [],  # noqa: B006 - typer's way to say none
    output: OutputOption = None,
    allow_code: AllowCodeOption = False,
) -> None:
    """Write what a recipe does to one engine as a plain difference, for git apply or patch -p1.

    To be applied in the folder that holds the package. What a recipe adds to the launch is not in it.
    """
    from oeactl.core.plan import Planned
    from oeactl.errors import Refused
    from oeactl.render.diff import patch_of
    from oeactl.render.recipe import files_words

    found = checked(call, recipe, engine, root, sets, allow_code=allow_code)
    name = found.plan.layer.recipe
    if not isinstance(found.plan, Planned) or not found.plan.files:
        raise Refused(f"{name} changes no file there", where=found.survey.engine.root)
    data = patch_of(found.plan, found.survey)
    if output is not None:
        _write(output, data)
    elif not call.json:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    paths = [file.path for file in found.plan.files]
    if call.json or output is not None:
        document = {"recipe": name, "files": paths, "diff": data.decode("utf-8", "backslashreplace")}
        call.emit(document, lambda: f"{output}: {files_words(len(paths))}")
