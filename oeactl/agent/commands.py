"""A server that its owner starts and stops by commands: running them, and the record of such a start.

Owns: ``server.command_start`` and how a command is run. Refuses: a command that does not return in time (it
is ended), and to start on a taken port.
"""

from __future__ import annotations

import secrets
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from . import log, port, process, record
from .environment import base_environment
from .launch import refuse_second, refuse_taken
from .wire import AgentError, operation

if TYPE_CHECKING:
    from .wire import Client, Request

TAIL_LINES = 20
STATUS_S = 30.0
POLL_S = 0.1


class Finished(NamedTuple):
    """returncode None: it did not return in time and was ended. tail: its last lines."""

    returncode: int | None
    tail: list[str]


def run(argv: list[str], env: dict[str, str], cwd: str | None, timeout_s: float) -> Finished:
    """Run a command whose children may go on: its output goes to a file, so that no pipe is waited for."""
    with tempfile.TemporaryFile() as output:
        try:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**base_environment(), **env},
                cwd=cwd or "/",
                start_new_session=True,
            )
        except OSError as error:
            where = error.filename or argv[0]
            raise AgentError(
                "usage", f"the command cannot be run: {error.strerror}", where, "correct hosts.yaml"
            ) from error
        returncode: int | None
        try:
            returncode = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            returncode = None
        output.seek(0)
        lines = output.read()[-65536:].decode("utf-8", "replace").splitlines()
        return Finished(returncode, lines[-TAIL_LINES:])


def is_running(request: Request) -> bool | None:
    """What the owner's status command says; None where there is none."""
    if not request.get("status"):
        return None
    return run(request["status"], request.get("env") or {}, request.get("cwd"), STATUS_S).returncode == 0


@operation("server.command_start")
def start(request: Request, client: Client) -> dict[str, Any]:
    """Run ``command``; answers a Process of pid 0: the server is who will listen and began after it."""
    folder = record.state_dir(request)
    refuse_second(record.read(folder))
    refuse_taken(port.port_of(request["url"]))
    mark = secrets.token_hex(8)
    begun = record.Record(
        pid=0,
        ticks=process.now_ticks(),
        boot_id=process.boot_id(),
        url=request["url"],
        log=request["log"],
        log_begin=log.end_of(request["log"]),
        started_at=time.time(),
        launch_sha256=record.launch_sha256({"command": request["command"], "env": request["env"]}),
        env_names=sorted(request["env"]),
        mark=mark,
        family=[],
    )
    record.prepare(folder)
    record.write(folder, begun)
    env = {**request["env"], record.PROOF_DIR: record.proof_dir(folder), record.MARK: mark}
    done = run(request["command"], env, request.get("cwd"), request["deadline_s"])
    if done.returncode != 0:
        how = f"ended with {done.returncode}" if done.returncode else "did not return in time"
        hint = "it must return once the server is begun: see server.start in hosts.yaml"
        raise AgentError("refused", f"the start command {how}", request["command"][0], hint, done.tail)
    return {"pid": 0, "start_ticks": begun.ticks, "boot_id": begun.boot_id, "title": "", "role": ""}
