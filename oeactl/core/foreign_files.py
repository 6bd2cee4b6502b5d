"""Result files of other load clients, told apart by what is in them: bench_serving, vllm bench serve, AIPerf.

Owns: which reader takes a file, and the run that imported levels make. Refuses: files (bytes come in), and
levels of two clients, or of two models, in one run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from urllib.parse import urlsplit

from oeactl.core import aiperf_export, bench_serving, vllm_result
from oeactl.core.evidence import Evidence, Gate, not_seen
from oeactl.core.foreign_level import ForeignLevel, json_object
from oeactl.core.gates import failures, judge
from oeactl.core.host import ServerState
from oeactl.core.load import Sweep
from oeactl.core.provenance import DriverRecord, EngineRecord, HostRecord, ModelRecord, ServerRecord
from oeactl.core.results import moment
from oeactl.core.run import Arm, ImportedFile, Plan, PlannedTrial, PointRecord, RawFile, Trial
from oeactl.errors import UsageError

_FORMS = "bench_serving's .jsonl, vllm bench serve's .json, AIPerf's profile_export_aiperf.json or .csv"
_ONLY = PlannedTrial(name="001-A", arm="A", order=1, start="attached")
_NOT_TOLD = "the file does not tell"
_NEVER_TOLD = ("warm_up", "flush", "same_server", "alive_after", "source", "activation", "client")


def read_levels(data: bytes, name: str) -> tuple[ForeignLevel, ...]:
    """All levels in a file, in its order. Raises UsageError by line and key."""
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        raise UsageError("this is no text", where=name, hint=_FORMS) from problem
    if aiperf_export.is_csv(text):
        return (aiperf_export.foreign_csv(text, name),)
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if not lines:
        raise UsageError("this file is empty", where=name)
    if not all(line.startswith("{") and line.rstrip().endswith("}") for _, line in lines):
        return (_level(text, name),)  # one object over many lines
    return tuple(_level(line, f"{name}:{number}") for number, line in lines)


def _level(text: str, where: str) -> ForeignLevel:
    fields = json_object(text, where)
    if aiperf_export.is_export(fields):
        return aiperf_export.foreign(fields, where)
    if bench_serving.is_line(fields):
        return bench_serving.foreign(fields, where)
    if vllm_result.is_result(fields):
        return vllm_result.foreign(fields, where)
    raise UsageError("this is not a result of a load client that is known", where=where, hint=_FORMS)


def imported_plan(
    levels: Sequence[ForeignLevel],
    files: Sequence[tuple[str, bytes]],
    *,
    run_id: str,
    label: str,
    at: float,
    version: str,
) -> Plan:
    """The plan of a run of imported levels. at: when, unix seconds; version: oeactl's. Raises UsageError."""
    first = levels[0]
    for level in levels:
        for what, one, other in (
            ("client", first.client, level.client),
            ("client's release", first.version, level.version),
            ("model", first.model, level.model),
            ("URL", first.url, level.url),
        ):
            if one != other:
                raise UsageError(
                    f"another {what} than in {first.where}: {other}, not {one}",
                    where=level.where,
                    hint="a run has one; import them one after the other",
                )
    return Plan(
        run_id=run_id,
        what="import",
        label=label,
        created_at=moment(at),
        oeactl_version=version,
        host=host_name(first),
        driver=first.client,
        sweep=Sweep(points=tuple(level.point for level in levels), seed=None, dataset=first.dataset),
        arms=(Arm(name=_ONLY.arm),),
        trials=(_ONLY,),
        imported=tuple(
            ImportedFile(name=name, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
            for name, data in files
        ),
    )


def imported_trial(levels: Sequence[ForeignLevel], plan: Plan, raws: Sequence[RawFile | None]) -> Trial:
    """What the files say, and nothing else. raws: the rows of each level, as kept."""
    first = levels[0]
    name = host_name(first)
    return Trial(
        run_id=plan.run_id,
        name=_ONLY.name,
        arm=_ONLY.arm,
        order=_ONLY.order,
        start=_ONLY.start,
        started_at=plan.created_at,
        ended_at=plan.created_at,
        outcome="completed",
        clock_offset_s=0.0,
        host=HostRecord(name=name, hostname=name, kernel=None, cpus=None, memory_bytes=None, boot_id=None),
        engine=EngineRecord(
            package=first.engine,
            root=None,
            version=_version(first),
            python_version=None,
            editable=False,
            git_commit=None,
            git_dirty_sha256=None,
        ),
        model=ModelRecord(served_name=first.model),
        server=ServerRecord(
            url=first.url or "",
            pid=None,
            start_ticks=None,
            started_at=None,
            args=first.server_args,
            environment={},
            gpus=None,
        ),
        driver=DriverRecord(
            name=first.client,
            program=first.client,
            version=first.version,
            tokens_from=first.tokens_from,
            duration_includes=first.duration_includes,
        ),
        recipes=(),
        targets=(),
        points=tuple(
            _record(index, level, plan, raw)
            for index, (level, raw) in enumerate(zip(levels, raws, strict=True), start=1)
        ),
    )


def host_name(level: ForeignLevel) -> str:
    """Where the server was, as far as the file says."""
    return urlsplit(level.url).netloc if level.url else "unknown host"


def _version(level: ForeignLevel) -> str | None:
    version = level.server_args.get("version")
    return version if isinstance(version, str) else None


def _record(index: int, level: ForeignLevel, plan: Plan, raw: RawFile | None) -> PointRecord:
    gates = gates_of(level)
    return PointRecord(
        index=index,
        point=level.point,
        started_at=plan.created_at,
        ended_at=plan.created_at,
        argv=(level.where, *((level.date,) if level.date else ())),
        workload_sha256=None,
        valid=not failures(gates),
        reasons=failures(gates),
        gates=gates,
        measurement=level.measurement,
        raw=raw,
    )


def gates_of(level: ForeignLevel) -> tuple[Gate, ...]:
    """Every gate, as far as the file feeds it."""
    nobody = ServerState(recorded=None, listener=None)
    evidence = Evidence(
        point=level.point,
        before=nobody,
        after=nobody,
        measurement=level.measurement,
        requests=level.rows,
        activations=None,
        dataset=level.dataset,
    )
    untold = {**dict.fromkeys(_NEVER_TOLD, _NOT_TOLD), **level.untold}
    return tuple(
        not_seen(gate.name, untold[gate.name]) if gate.name in untold else gate for gate in judge(evidence)
    )
