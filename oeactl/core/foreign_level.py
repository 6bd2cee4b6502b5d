"""One level as another tool's result file tells it, and how such files are read: strictly, by line and key.

Owns: the form every reader fills, the errors that name file, line and key. Refuses: to know a tool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from oeactl.core.host import Value
from oeactl.core.load import DatasetKind, Distribution, Measurement, PerRequest, Point
from oeactl.errors import UsageError

Fields = TypeVar("Fields", bound=msgspec.Struct)


class ForeignLevel(Value, frozen=True, kw_only=True):
    """client, version: the tool. engine, model, url, server_args: as far as the file says; None: it does not.

    date: when, in the tool's own words. untold: gates that the file cannot feed, and why.
    tokens_from, duration_includes: as in run.DriverRecord. where: file and line.
    """

    where: str
    client: str
    version: str | None
    engine: str
    model: str | None
    url: str | None
    point: Point
    measurement: Measurement
    rows: PerRequest | None
    dataset: DatasetKind
    tokens_from: str
    duration_includes: str
    untold: dict[str, str]
    date: str | None = None
    server_args: dict[str, Any] = msgspec.field(default_factory=dict)


class NotFinite:
    """Stands where the text had NaN or Infinity, which JSON has not."""


def json_object(text: str, where: str) -> dict[str, Any]:
    """One JSON object; NaN and Infinity are values of NotFinite. Raises UsageError."""
    try:
        body = json.loads(text, parse_constant=lambda _: NotFinite())
    except ValueError as problem:
        raise UsageError(f"not JSON: {problem}", where=where) from problem
    if not isinstance(body, dict):
        raise UsageError("not a JSON object", where=where)
    return body


def typed(fields: Mapping[str, Any], kind: type[Fields], where: str) -> Fields:
    """The fields of ``kind`` out of a file's, which may have more. Raises UsageError that names the key."""
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    for key in known:
        if holds_no_number(fields.get(key)):
            raise UsageError(f"'{key}' is not a finite number", where=where)
    try:
        return msgspec.convert({key: fields[key] for key in fields if key in known}, kind)
    except msgspec.ValidationError as problem:
        what, _, path = str(problem).partition(" - at `$.")
        raise UsageError(f"'{path.rstrip('`')}': {what}" if path else what, where=where) from problem


def holds_no_number(value: Any) -> bool:
    """Whether NaN or Infinity is anywhere in a value of two levels at most."""
    held = value if isinstance(value, list) else (value,)
    return any(
        isinstance(deep, NotFinite) for item in held for deep in (item if isinstance(item, list) else (item,))
    )


def spread(fields: Mapping[str, Any], name: str, where: str) -> Distribution | None:
    """``mean_NAME_ms`` and the others, as bench_serving and vllm bench serve write them; None without."""
    keys = {key: f"{key}_{name}_ms" for key in ("mean", "median", "std", "p90", "p95", "p99")}
    found = {key: fields[written] for key, written in keys.items() if written in fields}
    if not found:
        return None
    for key, value in found.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise UsageError(f"'{keys[key]}' is not a finite number", where=where)
    missing = [keys[key] for key in ("mean", "median", "std", "p99") if key not in found]
    if missing:
        raise UsageError(f"there is no {', '.join(missing)}", where=where)
    return Distribution(**{key: float(value) for key, value in found.items()})


def same_length(rows: Mapping[str, tuple[Any, ...] | None], where: str) -> None:
    """Raises UsageError where the lists, one entry a request, are not of one length."""
    lengths = {key: len(row) for key, row in rows.items() if row is not None}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise UsageError(f"its per-request lists differ in length: {told}", where=where)


def about(total: int, count: int) -> int:
    """The mean length, as a whole number of at least one."""
    return max(1, round(total / max(1, count)))
