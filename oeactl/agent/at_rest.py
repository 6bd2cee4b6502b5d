"""Files of a container that does not run, by ``docker cp``: what it takes to put a failed change back.

Owns: ``container.put_back``. Refuses: to patch there (nothing could compile or probe it), and a file that is
neither what the change wrote nor what it shall become.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from typing import TYPE_CHECKING, Any

from . import disk, docker
from .wire import AgentError, from_text, operation, uninterrupted

if TYPE_CHECKING:
    from .wire import Client, Request

COPY_S = 120.0


@operation("container.put_back")
def put_back(request: Request, client: Client) -> dict[str, Any]:
    """The wire's Journal after a rollback Transaction. inside: the state folder in the container."""
    name, journal_path = docker.inspect(request["container"]).name, f"{request['inside']}/journal.json"
    member, data = _read(name, journal_path)
    journal = json.loads(data)
    found = [(wanted, *_read(name, wanted["path"])) for wanted in request["files"]]
    for wanted, _, now in found:
        if disk.sha256(now) not in (wanted["before_sha256"], wanted["after_sha256"]):
            raise AgentError(
                "refused", "it was changed while we worked", wanted["path"], "see who changed it"
            )
    with uninterrupted():
        for wanted, facts, now in found:
            if disk.sha256(now) != wanted["after_sha256"]:
                _write(name, wanted["path"], facts, from_text(wanted["after"]))
        _settle(journal, request)
        _write(name, journal_path, member, json.dumps(journal, indent=1).encode() + b"\n")
    for wanted, _, _ in found:
        _, now = _read(name, wanted["path"])
        if disk.sha256(now) != wanted["after_sha256"]:
            raise AgentError("degraded", "docker cp did not write what it was given", wanted["path"])
    shown = {key: journal[key] for key in ("root", "layers", "files")}
    return {**shown, "pending": None, "lease": None, "recovered": None}


def _settle(journal: dict[str, Any], request: Request) -> None:
    """The record as it is once these files hold what they shall."""
    after = {wanted["path"]: wanted["after_sha256"] for wanted in request["files"]}
    edited = {path for layer in request["layers"] for path in layer["edits"]}
    journal["files"] = [
        {**one, "expected_sha256": after.get(one["path"], one["expected_sha256"])}
        for one in journal["files"]
        if one["path"] in edited
    ]
    journal["layers"] = request["layers"]
    journal["pending"] = journal["lease"] = None


def unlike_image(found: docker.Container, paths: list[str]) -> list[str]:
    """Those of ``paths`` whose regular file in the container is not what its image has."""
    spare = f"{found.name}.oeactl-new"
    docker.do(["create", "--pull", "never", "--name", spare, found.image, "true"], timeout_s=COPY_S)
    try:
        return [path for path in paths if _holds(found.name, path) != _holds(spare, path)]
    finally:
        docker.do(["rm", spare])


def _holds(name: str, path: str) -> bytes | None:
    """A regular file's content; None for a folder, and where there is none."""
    done = docker.ask(["cp", "-a", f"{name}:{path}", "-"], timeout_s=COPY_S)
    if done.returncode != 0:
        return None
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        file = archive.extractfile(archive.getmembers()[0])
        return file.read() if file else None


def _read(name: str, path: str) -> tuple[tarfile.TarInfo, bytes]:
    done = docker.ask(["cp", "-a", f"{name}:{path}", "-"], timeout_s=COPY_S)
    if done.returncode != 0:
        raise AgentError(
            "refused", "docker cp cannot read it", path, f"docker inspect {name}", docker.said(done)
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        member = archive.getmembers()[0]
        file = archive.extractfile(member)
        if file is None:
            raise AgentError("refused", "it is no regular file", path)
        return member, file.read()


def _write(name: str, path: str, facts: tarfile.TarInfo, data: bytes) -> None:
    """Mode and owner stay; the time is past the old one by a second, or stale bytecode would match."""
    member = tarfile.TarInfo(os.path.basename(path))
    member.mode, member.uid, member.gid = facts.mode, facts.uid, facts.gid
    member.size, member.mtime = len(data), max(int(time.time()), int(facts.mtime) + 2)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(member, io.BytesIO(data))
    folder = f"{name}:{os.path.dirname(path)}"
    done = docker.ask(["cp", "-a", "-", folder], data=stream.getvalue(), timeout_s=COPY_S)
    if done.returncode != 0:
        raise AgentError(
            "degraded", "docker cp cannot write it", path, f"docker inspect {name}", docker.said(done)
        )
