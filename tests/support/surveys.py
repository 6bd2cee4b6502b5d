"""What a host's survey says, made up from bytes: for the planning tests, with nothing of a host in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from oeactl.core.host import (
    EngineFacts,
    FileRecord,
    FileState,
    Holder,
    HostFacts,
    Journal,
    Layer,
    Survey,
)

HOLDER = Holder(user="ann", host="laptop", pid=1)
ROOT = "/opt/engine"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def path_of(module: str) -> str:
    return f"{ROOT}/{module.replace('.', '/')}.py"


def survey_of(
    sources: Mapping[str, bytes],
    *,
    version: str | None = "1.0",
    python: str = "3.11.7",
    package: str = "sglang",
    journal: Journal | None = None,
) -> Survey:
    """A host that holds ``module -> bytes``, with no record unless one is given."""
    return Survey(
        host=HostFacts(
            hostname="host",
            user="root",
            uid=0,
            boot_id="boot",
            time=0.0,
            cpus=1,
            memory_bytes=1,
            kernel="k",
            state_dir="/state",
        ),
        engine=EngineFacts(package=package, root=ROOT, version=version, python_version=python),
        files=tuple(file_state(module, data) for module, data in sources.items()),
        journal=journal or Journal(root=ROOT),
    )


def file_state(module: str, data: bytes, **more: object) -> FileState:
    state = FileState(
        module=module, path=path_of(module), sha256=sha256(data), size=len(data), mode=0o644, data=data
    )
    return msgspec.structs.replace(state, **more)


def after_write(
    survey: Survey, files: Mapping[str, bytes], layers: tuple[Layer, ...], **state: object
) -> Survey:
    """The host once ``path -> bytes`` is written and ``layers`` is its journal's stack."""
    records = {record.path: record for record in survey.journal.files}
    states = []
    for was in survey.files:
        data = files.get(was.path, was.data or b"")
        states.append(msgspec.structs.replace(was, data=data, sha256=sha256(data), size=len(data), **state))
        known = records.get(was.path)
        original = known.pristine if known is not None and known.pristine is not None else was.data or b""
        if any(was.path in layer.edits for layer in layers):
            records[was.path] = FileRecord(
                module=was.module,
                path=was.path,
                pristine_sha256=sha256(original),
                expected_sha256=sha256(data),
                mode=0o644,
                uid=0,
                gid=0,
                pristine=original,
            )
        else:
            records.pop(was.path, None)
    journal = Journal(root=survey.journal.root, layers=layers, files=tuple(records.values()))
    return msgspec.structs.replace(survey, files=tuple(states), journal=journal)
