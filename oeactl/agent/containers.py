"""A server in a docker container, seen from the docker host: docker begins and ends it, /proc shows it.

Owns: ``container.start``, ``container.state``, its log, and what was known of its files. Refuses: to make one
that is there anew, or to remove one.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from . import beside, commands, docker, log, port, process, record
from .environment import base_environment
from .launch import refuse_second, refuse_taken
from .server import health
from .wire import AgentError, operation

if TYPE_CHECKING:
    from .docker import Place
    from .process import Stat
    from .wire import Client, Request

SETTLE_S = 3.0
FOLLOWED = "container.log"


def starts_again(place: Place, restarts: int) -> bool:
    """Whether docker starts it again after its main process ended. restarts: its count before."""
    limit = time.monotonic() + SETTLE_S
    while time.monotonic() < limit:
        now = docker.look(place)
        if now is None:
            return False  # made with --rm: it is gone
        if now.restarting or now.restarts > restarts:
            return True
        if not now.running:
            return False
        time.sleep(0.2)
    return False


def restarts_of(request: Request) -> int:
    return docker.inspect(request["container"]).restarts if request.get("container") else 0


@operation("container.start")
def start(request: Request, client: Client) -> dict[str, object]:
    """Begin it; answers the main process, as the host numbers it. Its own arguments stay.

    A container that is not there is made: by ``docker run`` with the words of ``run``, or by compose.
    """
    folder, place = record.state_dir(request), request["container"]
    refuse_second(record.read(folder))
    found = docker.look(place)
    if found is not None and found.running:
        raise AgentError(
            "refused", f"{docker.called(place)} is already running", found.name, "oeactl restart"
        )
    refuse_taken(port.port_of(request["url"]))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    place = beside.arranged(request)
    found = docker.look(place)
    since = time.time()
    words = _begin(place, found, patched=_patched_inside(request))
    done = commands.run(["docker", *words], place.get("env") or {}, None, request["deadline_s"])
    if done.returncode != 0:
        what = f"docker {' '.join(words[:1])} failed"
        raise AgentError("refused", what, docker.called(place), "docker says why", done.tail)
    found = docker.inspect(place)
    try:
        beside.refuse_other_image(request, found)
    except AgentError:
        docker.do(["stop", "-t", "10", found.name])
        raise
    leader = process.stat(found.pid) if found.pid else None
    if leader is None:
        lines = tail(found.name, commands.TAIL_LINES)
        what = f"the container ended at once, with {found.exit_code}"
        raise AgentError("refused", what, found.name, f"docker logs {found.name}", lines)
    followed = os.path.join(folder, FOLLOWED)
    _follow_into(found.name, since, followed)
    record.write(
        folder,
        record.Record(
            pid=leader.pid,
            ticks=leader.ticks,
            boot_id=process.boot_id(),
            url=request["url"],
            log=followed,
            log_begin=0,
            started_at=since,
            launch_sha256=record.launch_sha256({"container": found.identity}),
            env_names=[],
            mark="",
            family=[[leader.pid, leader.ticks]],
        ),
    )
    return process.describe(leader)


def _begin(place: Place, found: docker.Container | None, *, patched: bool) -> list[str]:
    """docker's words that begin it. patched: inside of it, so that it must not be made anew."""
    if place.get("name") is None:
        stay = ["--no-recreate"] if patched else []
        return [*docker.compose(place), "up", "-d", *stay, place["service"]]
    if found is not None:
        return ["start", place["name"]]
    if not place.get("run"):
        raise docker.missing(place)
    return ["run", "-d", "--name", place["name"], *place["run"]]


def _follow_into(name: str, since: float, path: str) -> None:
    """What it says from now on, into a file that a wait can read; ends with the container."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since))
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        child = subprocess.Popen(
            ["docker", "logs", "-f", "--since", moment, name],
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            env=base_environment(),
            start_new_session=True,
        )
        child.returncode = 0  # it is not ours to wait for
    finally:
        os.close(handle)


@operation("container.state")
def state(request: Request, client: Client) -> dict[str, Any]:
    """The wire's ServerState. A worker has the pid by which it knows itself: its proofs name that one."""
    last = record.read(record.state_dir(request))
    found = docker.look(request["container"])
    leader = process.stat(found.pid) if found and found.running and found.pid else None
    members = process.Family(leader.key).look() if leader else []
    ours = bool(leader and last and last.key == leader.key)
    described = process.describe(leader) if leader else None
    answer: dict[str, Any] = {
        "recorded": described if ours else None,
        "listener": described,
        "workers": [one for one in map(_inside, members) if one["role"]],
        "started_at": time.time() - process.age_s(leader.ticks) if leader else None,
        "foreign": bool(leader) and not ours,
        "lost": record.lost(last),
    }
    if found:
        answer["image"], answer["image_digest"] = found.document["Config"]["Image"], _digest(found.image)
    if last and answer["lost"] and leader is None:
        answer["last_error"] = log.first_error(last.log, last.log_begin)
    if request.get("health"):
        answer["healthy"], answer["health"] = health(request, leader is not None)
    return answer


@lru_cache(maxsize=None)  # noqa: UP033  # no functools.cache in CPython 3.8
def _digest(identity: str) -> str:
    """The registry's digest of an image, else the image's own id: a name alone may mean another tomorrow."""
    found = docker.image(identity) or {}
    return str(next(iter(found.get("RepoDigests") or ()), identity))


def _inside(one: Stat) -> dict[str, Any]:
    """The wire's Process with the pid of its own namespace."""
    described: dict[str, Any] = dict(process.describe(one))
    with suppress(OSError), open(f"/proc/{one.pid}/status") as file:
        for line in file:
            if line.startswith("NSpid:"):
                described["pid"] = int(line.split()[-1])
    return described


@operation("container.name")
def name_of(request: Request, client: Client) -> str:
    """What docker calls it. Raises AgentError where there is none."""
    return docker.inspect(request["container"]).name


@operation("container.known")
def known(request: Request, client: Client) -> dict[str, Any]:
    """Which container it is now ("" where there is none), whether it runs, what was kept of a look inside.

    applied: how files of it were changed, None for not at all. removed: its stop removes it (--rm).
    """
    place = request["container"]
    found, kept = docker.look(place), _kept(request)
    applied = beside.mode(request) or ("inplace" if _patched_inside(request) else None)
    if found is None and kept is None and applied is None and not (place.get("run") or place.get("service")):
        raise docker.missing(place)
    return {
        "identity": found.identity if found else "",
        "running": bool(found and found.running),
        "kept": kept,
        "applied": applied,
        "removed": bool(found and found.document["HostConfig"].get("AutoRemove")),
    }


def _patched_inside(request: Request) -> bool:
    kept = _kept(request)
    return bool(kept and kept.get("mode", "inplace") == "inplace")


def _kept(request: Request) -> Any:
    with suppress(FileNotFoundError, ValueError), open(_seen(request), encoding="utf-8") as file:
        return json.load(file)
    return None


@operation("container.keep")
def keep(request: Request, client: Client) -> None:
    """Keep what was seen inside, for the owner's eyes alone; None forgets it."""
    path = _seen(request)
    if request["seen"] is None:
        with suppress(FileNotFoundError):
            os.unlink(path)
        with suppress(OSError):
            os.rmdir(os.path.dirname(path))
        return
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{os.getpid()}"
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(request["seen"], file)
    os.replace(temporary, path)


@operation("container.ended")
def ended(request: Request, client: Client) -> None:
    """After its stop: what was kept of its output goes, and the folder where it holds nothing else."""
    beside.tidy(request)
    folder = record.state_dir(request)
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, FOLLOWED))
    with suppress(OSError):
        os.rmdir(folder)


def _seen(request: Request) -> str:
    return os.path.join(record.state_dir(request), beside.SEEN)


def tail(name: str, count: int) -> list[str]:
    argv = ["docker", "logs", "--tail", str(count), name]
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=docker.INSPECT_S,
            check=False,
            env=base_environment(),
        )
        return done.stdout.decode("utf-8", "replace").splitlines()[-count:] if count else []
    return []


@operation("container.log")
def lines(request: Request, client: Client) -> list[str]:
    """The last ``count`` lines that it said."""
    return tail(docker.inspect(request["container"]).name, request["count"])


@operation("container.follow")
def follow(request: Request, client: Client) -> None:
    """Emit the last ``count`` lines and then every new one, until it ends or the client goes."""
    name = docker.inspect(request["container"]).name
    argv = ["docker", "logs", "-f", "--tail", str(request["count"]), name]
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=base_environment(),
    )
    assert child.stdout is not None
    try:
        for line in child.stdout:
            client.emit("lines", lines=[line.decode("utf-8", "replace").rstrip("\r\n")])
    finally:
        child.kill()
        child.wait()
