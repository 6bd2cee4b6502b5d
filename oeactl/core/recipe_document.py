"""What recipe.yaml may say: its structs, key by key.

Owns: the keys, their types and defaults; editors get them as a JSON Schema. Refuses: to check what one key
says of another (``recipe`` does).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from oeactl.core.guards import Needs
from oeactl.core.host import Value

Plain = bool | int | float | str


class Credit(Value, frozen=True, kw_only=True):
    """Where the idea comes from."""

    paper: str | None = None
    url: str | None = None


class Engine(Value, frozen=True, kw_only=True):
    """What the recipe is for: the package, and the releases it may be tried on (``>=0.4.7``)."""

    package: str
    versions: str | None = None


class Parameter(Value, frozen=True, kw_only=True):
    """A value the user may set. min, max: inclusive, for numbers."""

    type: Literal["int", "float", "bool", "str"]
    default: Plain
    about: str = ""
    min: int | float | None = None
    max: int | float | None = None
    choices: tuple[Plain, ...] = ()


class Fact(Value, frozen=True, kw_only=True):
    """Something the model's config.json tells: the first of ``keys`` (dotted) that is there.

    default: what its absence means, where the config is known; without one it is then not known.
    """

    keys: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    default: Plain | None = None
    about: str = ""


class Rule(Value, frozen=True, kw_only=True):
    """A condition over parameters and facts. message: what to say when it fails; ``{name}`` is a value."""

    check: str
    message: str


class Tested(Value, frozen=True, kw_only=True):
    """A release whose file was seen to work. sha256: of the pristine file.

    They stand in recipe.yaml or, written by a program, in tested.json:
    ``{module: {sha256: [version, ...]}}``.
    """

    version: str
    sha256: str


class VariantDocument(Value, frozen=True, kw_only=True):
    """One era of a file. An exact sha256 chooses it; else the version range and ``when``, in listed order.

    values: Python expressions for further placeholders. edits: besides the file's own.
    """

    id: str
    sha256: tuple[str, ...] = ()
    versions: str | None = None
    when: Needs = Needs()
    values: dict[str, str] = msgspec.field(default_factory=dict)
    edits: tuple[Any, ...] = ()


class FileDocument(Value, frozen=True, kw_only=True):
    """What happens to one module. transform: instead of edits, a script of the recipe's folder.

    It holds ``def transform(source: str, values: dict) -> str`` and runs only with ``--allow-code``.
    """

    module: str
    require: Needs = Needs()
    tested: tuple[Tested, ...] = ()
    variants: tuple[VariantDocument, ...] = ()
    edits: tuple[Any, ...] = ()
    transform: str | None = None


class WholeFileDocument(Value, frozen=True, kw_only=True):
    """A file put there as a whole. path: from the folder that holds the package (``sglang/…/a.json``).

    or_path: where it goes in other releases; the first is taken whose folder is there. new_folder: it may be
    made; else a release without the folder is refused. source: a file of the recipe's folder, taken byte for
    byte. replaces: sha256 of each original that it may take the place of; without any there must be none.
    """

    path: str
    source: str
    replaces: tuple[str, ...] = ()
    or_path: tuple[str, ...] = ()
    new_folder: bool = False


class LaunchDocument(Value, frozen=True, kw_only=True):
    """What the recipe adds to how the server is started; ``{name}`` in it is a parameter's value."""

    args: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)


class RecipeDocument(Value, frozen=True, kw_only=True):
    """recipe.yaml. rules bind parameters (a wrong value is the user's); guards bind the model (refused).

    independent: edits that upstream has already are left out and the others still made.
    proof: the changed engine leaves proof files with the plan's digest.
    marks: comments above and below each block that is put in; without them the journal alone knows.
    unanchored: what an import could not place; while there is any, the recipe is not applied.
    computes: whether the model still computes what it did, but for rounding (same), or something else
    (other): reports say it. None: the recipe does not say.
    """

    id: str
    revision: Annotated[int, msgspec.Meta(ge=1)]
    title: str
    summary: str = ""
    source: Credit = Credit()
    engine: Engine
    proof: bool = False
    independent: bool = False
    marks: bool = True
    computes: Literal["same", "other"] | None = None
    parameters: dict[str, Parameter] = msgspec.field(default_factory=dict)
    facts: dict[str, Fact] = msgspec.field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    guards: tuple[Rule, ...] = ()
    files: tuple[FileDocument, ...] = ()
    whole_files: tuple[WholeFileDocument, ...] = ()
    launch: LaunchDocument = LaunchDocument()
    unanchored: tuple[str, ...] = ()
