"""What an arm changes on the host, kept with its run: the difference, its hashes, the recipes it came from.

Owns: that record, and making it of two surveys of one host. Refuses: to plan a change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from oeactl.core.difference import write_difference
from oeactl.core.host import Survey, Value
from oeactl.core.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from oeactl.core.recipe import Recipe


class RecipeCopy(Value, frozen=True, kw_only=True):
    """A recipe as it was. files: its whole folder, path -> bytes.

    computes: whether the model computes what it did, or something else; None where the recipe does not say.
    """

    recipe: str
    revision: int
    title: str
    summary: str = ""
    url: str | None = None
    computes: Literal["same", "other"] | None = None
    files: dict[str, bytes]


class ChangedFile(Value, frozen=True, kw_only=True):
    """path: from the folder that holds the package. A hash of '' stands for no file."""

    path: str
    before_sha256: str
    after_sha256: str


class Change(Value, frozen=True, kw_only=True):
    """One arm's change of the pristine engine, as a whole. diff: for ``git apply`` or ``patch -p1``.

    recipes: those whose text is known here.
    """

    kind: Literal["change"] = "change"
    schema_version: int = SCHEMA_VERSION
    run_id: str
    arm: str
    recipes: tuple[RecipeCopy, ...] = ()
    files: tuple[ChangedFile, ...] = ()
    diff: str = ""


def copy_of(recipe: Recipe) -> RecipeCopy:
    """The recipe, to be kept."""
    document = recipe.document
    return RecipeCopy(
        recipe=recipe.id,
        revision=recipe.revision,
        title=document.title,
        summary=document.summary,
        url=document.source.url,
        computes=document.computes,
        files=dict(recipe.sources),
    )


def change_between(
    before: Survey, after: Survey, *, run_id: str, arm: str, recipes: tuple[Recipe, ...]
) -> Change:
    """What is different in ``after``. Both surveys are of one host and came with data."""
    was = {file.path: file for file in before.files}
    parent = after.engine.root.rpartition("/")[0] + "/"
    files: list[ChangedFile] = []
    written: list[bytes] = []
    for now in sorted(after.files, key=lambda file: file.path):
        old = was.get(now.path)
        if old is None or (old.missing, old.data) == (now.missing, now.data):
            continue
        name = now.path.removeprefix(parent)
        written.append(write_difference(name, old.data, now.data))
        files.append(
            ChangedFile(
                path=name,
                before_sha256="" if old.missing else old.sha256,
                after_sha256="" if now.missing else now.sha256,
            )
        )
    return Change(
        run_id=run_id,
        arm=arm,
        recipes=tuple(map(copy_of, recipes)),
        files=tuple(files),
        diff=b"".join(written).decode("utf-8", "backslashreplace"),
    )
