"""Beginning a server as a detached process of this host.

Owns: ``server.start``. Refuses: a taken port, a second start, an interpreter, a folder or a log that is
not there.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

from . import port, process, record
from .environment import base_environment
from .wire import AgentError, operation, uninterrupted

if TYPE_CHECKING:
    from .record import Record
    from .wire import Client, Request


@operation("server.start")
def start(request: Request, client: Client) -> dict[str, object]:
    """Begin ``launch`` in a session of its own, which outlives this program. Answers the leader."""
    folder, launch = record.state_dir(request), request["launch"]
    refuse_second(record.read(folder))
    refuse_taken(port.port_of(launch["url"]))
    python = interpreter(launch)
    if not os.path.isdir(launch["cwd"]):
        what = f"the folder {launch['cwd']} does not exist"
        raise AgentError("usage", what, launch["cwd"], "correct server.cwd in hosts.yaml")
    mark = secrets.token_hex(8)
    record.prepare(folder)
    environment = {**base_environment(), **launch["env"]}
    environment[record.PROOF_DIR] = record.proof_dir(folder)
    environment[record.MARK] = mark
    handle = _open_log(launch["log"])
    try:
        begun = _record(launch, mark, os.fstat(handle).st_size)
        with uninterrupted():
            # Written before it runs: should this program be killed in between, the mark finds the server.
            record.write(folder, begun)
            try:
                pid = _detach([python, *launch["argv"]], launch["cwd"], environment, handle)
            except AgentError:
                record.forget(folder)
                raise
            leader = process.stat(pid)
            if leader is None:
                raise AgentError("refused", "the server ended at once", launch["log"], "oeactl logs")
            key = [leader.pid, leader.ticks]
            record.write(folder, begun._replace(pid=leader.pid, ticks=leader.ticks, family=[key]))
    finally:
        os.close(handle)
    return process.describe(leader)


def _record(launch: dict[str, Any], mark: str, log_begin: int) -> Record:
    return record.Record(
        pid=0,
        ticks=process.now_ticks(),
        boot_id=process.boot_id(),
        url=launch["url"],
        log=launch["log"],
        log_begin=log_begin,
        started_at=time.time(),
        launch_sha256=record.launch_sha256(launch),
        env_names=sorted(launch["env"]),
        mark=mark,
        family=[],
    )


def refuse_second(last: Record | None) -> None:
    left = last.members().look(marks=True) if last else []
    if last and left:
        what = (
            "the server is already running"
            if process.alive(last.key)
            else "parts of the last server still run"
        )
        details = [process.named(one.pid) for one in left[:9]]
        raise AgentError("refused", what, last.url, "oeactl stop", details)


def refuse_taken(number: int) -> None:
    holders = port.listeners(number)
    if holders is None and port.wait_free(number):
        return
    holders = port.listeners(number) if holders is None else holders
    who = process.named(holders[0]) if holders else "a process that this user may not look into"
    if holders is None:
        who = "connections that do not end"
    raise AgentError(
        "refused", f"port {number} is taken by {who}", None, "oeactl stop, or another port in server.url"
    )


def interpreter(launch: dict[str, Any]) -> str:
    """The absolute path of what is run. Raises AgentError where it is missing, or not executable."""
    python: str = launch["python"]
    where = shutil.which(python, path={**base_environment(), **launch["env"]}.get("PATH"))
    if where is None:
        problem = "is not executable" if os.path.exists(python) else "does not exist on this host"
        raise AgentError(
            "usage", f"the interpreter {python} {problem}", python, "correct engine.python in hosts.yaml"
        )
    return os.path.abspath(where)


def _open_log(path: str) -> int:
    """Append to the log, its folder made where it is missing, and mark the place where this start begins."""
    try:
        os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        reason = os.strerror(error.errno or errno.EIO).lower()
        raise AgentError(
            "usage", f"the log cannot be written: {reason}", path, "correct server.log in hosts.yaml"
        ) from error
    os.write(handle, time.strftime("--- oeactl start %Y-%m-%d %H:%M:%S %z ---\n").encode())
    return handle


def _detach(argv: list[str], cwd: str, environment: dict[str, str], handle: int) -> int:
    """Run argv with the log as its output. It leads a session and a group: pid = pgid = sid."""
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        reason = os.strerror(error.errno or errno.EIO).lower()
        raise AgentError(
            "usage",
            f"the server cannot be started: {reason}",
            error.filename or argv[0],
            "correct engine.python and server.cwd in hosts.yaml",
        ) from error
    child.returncode = 0  # it is not ours to wait for
    return child.pid
