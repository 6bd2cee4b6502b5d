"""How results are written, read back and summed up.

Owns: strict JSON (sorted keys, aware UTC, no NaN, no Infinity), the version rule (an older one is lifted on
reading, a newer one refused), run names, and what of an environment may be kept. Refuses: files.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from oeactl.core.change import Change
from oeactl.core.host import Value
from oeactl.core.load import Point, Sweep
from oeactl.core.recording import Comparison, Recording
from oeactl.core.redact import is_secret_name, redact_text
from oeactl.core.run import Analysis, ArmAtLevel, Attachment, LevelSummary, Plan, PointRecord, Trial
from oeactl.core.saturation import Reached, Saturation, saturation
from oeactl.core.verdicts import verdicts
from oeactl.core.version import SCHEMA_VERSION

Document = TypeVar("Document", Plan, Trial, PointRecord, Analysis, Recording, Comparison, Attachment, Change)
Record = TypeVar("Record", bound=Value)

#: What a file says it is, by its ``kind``.
KINDS: dict[str, type] = {
    "plan": Plan,
    "trial": Trial,
    "analysis": Analysis,
    "recording": Recording,
    "comparison": Comparison,
    "attachment": Attachment,
    "change": Change,
}
_LABEL = re.compile(r"[^a-z0-9]+")
#: Of the server's environment only what bears on speed, or on which engine runs, and names no secret is kept.
_ENVIRONMENT = re.compile(
    r"(NCCL|CUDA|SGLANG|SGL|TORCH|TORCHINDUCTOR|TRITON|FLASHINFER|OMP|MKL|KMP|UCX|NVIDIA|HSA|HIP|ROCM|VLLM)_"
    r"[A-Z0-9_]+|TORCHDYNAMO_DISABLE|PYTHONPATH|HF_HUB_OFFLINE|ENGINE_STUBS|OEACTL_PROOF"
)


def _from_1(head: dict[str, Any]) -> dict[str, Any]:
    """Version 2 only added fields, whose absence means what their defaults say: not asked, not recorded."""
    return head


#: version -> what makes of a record of that version one of the next. Nothing that was written is rewritten.
LIFTS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1}


def run_id(at: float, label: str, token: str) -> str:
    """Name a run ``<UTC>Z-<label>-<token>``. at: unix seconds; token: 8 hex digits drawn by the caller."""
    return f"{moment(at):%Y%m%dT%H%M%S}Z-{clean_label(label)}-{token}"


def clean_label(label: str) -> str:
    """Reduce a label to what a folder's name may hold; 'run' when nothing is left."""
    return _LABEL.sub("-", label.lower()).strip("-")[:40].strip("-") or "run"


def moment(seconds: float) -> datetime:
    """An aware UTC time, to the millisecond, from unix seconds."""
    return datetime.fromtimestamp(round(seconds, 3), UTC)


def allowed_environment(env: dict[str, str]) -> dict[str, str]:
    """Keep of an environment the names that bear on speed; whatever looks like a secret never."""
    return {
        name: redact_text(value)
        for name, value in sorted(env.items())
        if _ENVIRONMENT.fullmatch(name) and not is_secret_name(name)
    }


def finite(value: Any) -> Any:
    """The same JSON value with NaN and Infinity, which a server's answer may hold, as their names."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def record(kind: type[Record], value: Value) -> Record:
    """Copy the fields that ``kind`` keeps out of a value of the wire, so that the wire may grow alone."""
    return kind(**{field.name: getattr(value, field.name) for field in msgspec.structs.fields(kind)})


def dump(value: Value) -> bytes:
    """Write strict JSON: sorted keys, two spaces, a final newline. Raises ValueError for NaN or Infinity."""
    text = json.dumps(
        msgspec.to_builtins(value), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False
    )
    return f"{text}\n".encode()


def parse(data: bytes, kind: type[Document]) -> Document:
    """Read one record back, an older one lifted. Raises ValueError, in one line, for all but a whole one."""
    try:
        head = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise ValueError(f"not whole JSON: {problem}") from problem
    if kind in KINDS.values():
        head = _lifted(head, _version(head, kind))
    try:
        return msgspec.convert(head, kind, strict=True)
    except msgspec.ValidationError as problem:
        raise ValueError(f"not a {kind.__name__.lower()} of schema {SCHEMA_VERSION}: {problem}") from problem


def _lifted(head: dict[str, Any], version: int) -> dict[str, Any]:
    for older in range(version, SCHEMA_VERSION):
        head = {**LIFTS[older](head), "schema_version": older + 1}
    return head


def _version(head: dict[str, Any], kind: type) -> int:
    found, version = head.get("kind"), head.get("schema_version")
    if not isinstance(found, str) or KINDS.get(found) is not kind:
        raise ValueError(f"not a {kind.__name__.lower()}: its kind is {found!r}")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"schema_version {version!r} is none")
    if version > SCHEMA_VERSION:
        raise ValueError(f"schema_version {version} is newer than this oeactl, which reads {SCHEMA_VERSION}")
    return version


def analyse(plan: Plan, trials: tuple[Trial, ...], at: float) -> Analysis:
    """Summarise valid points by level and arm, in the plan's order; judge the arms of a comparison."""
    measured = tuple(t for t in trials if plan.design is None or t.pair is not None)
    return Analysis(
        run_id=plan.run_id,
        made_at=moment(at),
        levels=tuple(
            LevelSummary(
                concurrency=point.concurrency,
                input_len=point.input_len,
                output_len=point.output_len,
                arms=tuple(_arm_at(point, arm.name, measured) for arm in plan.arms),
            )
            for point in plan.sweep.points
        ),
        verdicts=verdicts(plan, trials),
    )


def saturated(sweep: Sweep, points: Sequence[PointRecord]) -> Saturation | None:
    """Whether the last of ``points`` was not worth its streams, where the sweep asks that; None: go on."""
    if not sweep.until_saturated or not points or not points[-1].valid:
        return None
    return saturation([reached(one) for one in points if one.valid], sweep.targets)


def reached(point: PointRecord) -> Reached:
    """A valid level, as far as saturation is concerned."""
    assert point.measurement is not None
    return Reached(concurrency=point.point.concurrency, measurement=point.measurement, goodput=point.goodput)


def _arm_at(point: Point, arm: str, trials: tuple[Trial, ...]) -> ArmAtLevel:
    here = [p for trial in trials if trial.arm == arm for p in trial.points if same_level(p.point, point)]
    valid = [p for p in here if p.valid and p.measurement is not None]
    rates = [p.measurement.output_tokens_per_s for p in valid if p.measurement is not None]
    per_gpu = [p.output_tokens_per_s_per_gpu for p in valid if p.output_tokens_per_s_per_gpu is not None]
    return ArmAtLevel(
        arm=arm,
        trials=len(here),
        valid=len(valid),
        output_tokens_per_s=sum(rates) / len(rates) if rates else None,
        output_tokens_per_s_per_gpu=sum(per_gpu) / len(per_gpu) if per_gpu else None,
    )


def same_level(one: Point, other: Point) -> bool:
    """Whether two points ask for the same load, whatever their prompts and number of requests."""
    return (one.concurrency, one.rate, one.input_len, one.output_len) == (
        other.concurrency,
        other.rate,
        other.input_len,
        other.output_len,
    )
