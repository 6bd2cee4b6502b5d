"""Write docs/schemas/*.json from the types that read those files: ``make docs``. A test keeps them true.

recipe.json is of a recipe's recipe.yaml, case.json of its cases' case.yaml, hosts.json of hosts.yaml,
results.json of whatever stands in results/ but raw rows, by its ``kind``. An editor that knows them
(yaml-language-server, for one) completes keys and marks what is wrong.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from oeactl.core.cases import CaseDocument
from oeactl.core.hosts_file import HostsDocument
from oeactl.core.operations import OPERATIONS
from oeactl.core.recipe_document import RecipeDocument
from oeactl.core.results import KINDS
from oeactl.core.run import SCHEMA_VERSION, PointRecord

TARGET = Path(__file__).parent / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, str]:
    """File name -> text."""
    return {
        "recipe.json": _text(_recipe()),
        "case.json": _text(_schema(CaseDocument)),
        "hosts.json": _text(_schema(HostsDocument)),
        "results.json": _text(_results()),
    }


def _recipe() -> dict[str, Any]:
    """An edit is one of the operations: the types say so only by a table."""
    operations = sorted(set(OPERATIONS.values()), key=lambda kind: kind.__name__)
    schema = _schema(RecipeDocument, *operations)
    edits = {"anyOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in operations]}
    for name in ("FileDocument", "VariantDocument"):
        schema["$defs"][name]["properties"]["edits"]["items"] = edits
    return schema


def _results() -> dict[str, Any]:
    """One of the kinds, or a level by itself; the version is this one, for what is older is lifted first."""
    schema = _schema(PointRecord, *KINDS.values())
    for kind in KINDS.values():
        schema["$defs"][kind.__name__]["properties"]["schema_version"] = {"enum": [SCHEMA_VERSION]}
    del schema["$ref"]
    return {
        **schema,
        "anyOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in (*KINDS.values(), PointRecord)],
    }


def _schema(kind: type, *more: type) -> dict[str, Any]:
    (root, *_), parts = msgspec.json.schema_components([kind, *more], ref_template="#/$defs/{name}")
    for part in parts.values():
        for field in part.get("properties", {}).values():
            if field.get("type") == "number" and "pattern" in field:  # a duration, in words or seconds
                field["type"] = ["number", "string"]
    return {"$schema": DIALECT, **root, "$defs": dict(sorted(parts.items()))}


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for name, text in schemas().items():
        (TARGET / name).write_text(text)
        print(f"wrote {TARGET / name}")
