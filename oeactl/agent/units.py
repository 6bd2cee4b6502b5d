"""A server that a systemd unit keeps: begun by systemctl, known by its main process, its restarts counted.

Owns: ``server.unit_start``, ``server.unit_clean``, and the one file of ours, a drop-in that lasts until the
stop or the next boot. Refuses: to edit the unit itself.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from . import commands, log, port, process, record
from .launch import refuse_second, refuse_taken
from .wire import AgentError, operation

if TYPE_CHECKING:
    from .wire import Client, Request

DROP_IN = "90-oeactl.conf"
RELOAD_S = 60.0
SHOW_S = 30.0
SETTLE_S = 3.0  # from the end of a main process until systemd has decided what follows
SHOWN = ("LoadState", "ActiveState", "SubState", "MainPID", "NRestarts")


def show(unit: str) -> dict[str, str]:
    """What systemd says of the unit; {} where it says nothing."""
    argv = ["systemctl", "show", f"--property={','.join(SHOWN)}", unit]
    done = commands.run(argv, {}, None, SHOW_S)
    lines = done.tail if done.returncode == 0 else []
    return {name: value for name, equals, value in (line.partition("=") for line in lines) if equals}


def starts_again(unit: str, restarts: int) -> bool:
    """Whether systemd starts the unit again after its main process ended. restarts: its count before."""
    limit = time.monotonic() + SETTLE_S
    while time.monotonic() < limit:
        now = show(unit)
        if now.get("SubState") == "auto-restart" or int(now.get("NRestarts") or 0) > restarts:
            return True
        if now.get("ActiveState") in ("inactive", "failed"):
            return False
        time.sleep(0.2)
    return False


@operation("server.unit_start")
def start(request: Request, client: Client) -> dict[str, object]:
    """Write the drop-in, start ``unit``; answers its main process.

    launch: whose env is laid over the unit's; exec: the whole command, None to leave the unit's own.
    """
    folder, unit = record.state_dir(request), request["unit"]
    refuse_second(record.read(folder))
    refuse_taken(port.port_of(request["url"]))
    before = show(unit)
    if before.get("LoadState") not in ("loaded", None):
        raise AgentError(
            "usage", f"systemd has no unit {unit} ({before['LoadState']})", unit, "correct server.unit"
        )
    mark = secrets.token_hex(8)
    begun = record.Record(
        pid=0,
        ticks=process.now_ticks(),
        boot_id=process.boot_id(),
        url=request["url"],
        log=request["log"],
        log_begin=log.end_of(request["log"]),
        started_at=time.time(),
        launch_sha256=record.launch_sha256({"unit": unit, "env": request["env"], "exec": request["exec"]}),
        env_names=sorted(request["env"]),
        mark=mark,
        family=[],
    )
    record.prepare(folder)
    record.write(folder, begun)
    env = {**request["env"], record.PROOF_DIR: record.proof_dir(folder), record.MARK: mark}
    _write_drop_in(request, env)
    _systemctl("daemon-reload", timeout_s=RELOAD_S)
    _systemctl("start", unit, timeout_s=request["deadline_s"])
    leader = process.stat(int(show(unit).get("MainPID") or 0) or -1)
    if leader is None or leader.ended:
        raise AgentError(
            "refused",
            f"the main process of {unit} ended at once",
            unit,
            f"systemctl status {unit}",
            log.last_lines(request["log"], commands.TAIL_LINES, begun.log_begin),
        )
    key = [leader.pid, leader.ticks]
    record.write(folder, begun._replace(pid=leader.pid, ticks=leader.ticks, family=[key]))
    return process.describe(leader)


@operation("server.unit_clean")
def clean(request: Request, client: Client) -> None:
    """Take the drop-in away: the unit is again what its owner wrote."""
    path = _drop_in(request)
    if not os.path.exists(path):
        return
    os.unlink(path)
    with suppress(OSError):
        os.rmdir(os.path.dirname(path))
    _systemctl("daemon-reload", timeout_s=RELOAD_S)


def _drop_in(request: Request) -> str:
    return os.path.join(request["units_dir"], f"{request['unit']}.d", DROP_IN)


def _write_drop_in(request: Request, env: dict[str, str]) -> None:
    """Mode 0600: the environment may hold secrets."""
    lines = ["# by oeactl, until the server is stopped or the host boots", "[Service]"]
    lines += [f"Environment={quoted(f'{name}={value}')}" for name, value in sorted(env.items())]
    lines += [f"{stream}=append:{request['log']}" for stream in ("StandardOutput", "StandardError")]
    if request["exec"]:
        lines += ["ExecStart=", "ExecStart=" + " ".join(quoted(word, "$") for word in request["exec"])]
    path = _drop_in(request)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.makedirs(os.path.dirname(request["log"]), exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise AgentError(
            "refused", f"it cannot be written: {error.strerror}", path, "become: sudo in hosts.yaml"
        ) from error
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write("\n".join(lines) + "\n")


def quoted(word: str, also: str = "") -> str:
    """A word of a unit file: systemd's own escapes, ``%`` and (in commands) ``$`` doubled."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    for sign in also:
        text = text.replace(sign, sign * 2)
    return f'"{text}"'


def _systemctl(*words: str, timeout_s: float) -> None:
    done = commands.run(["systemctl", *words], {}, None, timeout_s)
    if done.returncode == 0:
        return
    how = f"ended with {done.returncode}" if done.returncode else "did not return in time"
    raise AgentError(
        "refused", f"systemctl {words[0]} {how}", words[-1], f"systemctl status {words[-1]}", done.tail
    )


def restarts_of(request: Request) -> int:
    return int(show(request["unit"]).get("NRestarts") or 0) if request.get("unit") else 0
