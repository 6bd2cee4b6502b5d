"""The docker command, as this host has it: what it says of containers and images, and which one is meant.

Owns: running it, ``inspect``, and finding the container of a name or of a compose service. Refuses: to change
any container (``containers`` and ``recreate`` do).
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple

from .environment import base_environment
from .wire import AgentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    Place = dict[str, Any]
    Done = subprocess.CompletedProcess[bytes]

INSPECT_S = 30.0
SAID_LINES = 3


class Container(NamedTuple):
    """pid: of its main process, as the host numbers it; 0 when it does not run. image: the id.

    document: all that inspect says.
    """

    identity: str
    name: str
    running: bool
    pid: int
    exit_code: int
    restarts: int
    restarting: bool
    image: str
    document: dict[str, Any]


def ask(
    words: Sequence[str], place: Place | None = None, data: bytes = b"", timeout_s: float = INSPECT_S
) -> Done:
    """Run docker with these words. place: whose variables it gets. Raises AgentError where it cannot."""
    env = {**base_environment(), **((place or {}).get("env") or {})}
    try:
        return subprocess.run(
            ["docker", *words], input=data, capture_output=True, timeout=timeout_s, check=False, env=env
        )
    except OSError as error:
        raise AgentError("usage", f"docker cannot be run: {error.strerror}", "docker") from error
    except subprocess.TimeoutExpired:
        what = f"docker {words[0]} does not answer within {timeout_s:g} s"
        raise AgentError("refused", what, words[-1]) from None


def do(words: Sequence[str], place: Place | None = None, timeout_s: float = INSPECT_S) -> str:
    """Run it and return what it printed. Raises AgentError when it fails."""
    done = ask(words, place, timeout_s=timeout_s)
    if done.returncode != 0:
        raise AgentError("refused", f"docker {words[0]} failed", words[-1], None, said(done))
    return done.stdout.decode("utf-8", "replace")


def said(done: Done) -> list[str]:
    """Its last words."""
    return done.stderr.decode("utf-8", "replace").strip().splitlines()[-SAID_LINES:]


def compose(place: Place) -> list[str]:
    """The words before compose's own command."""
    files = [word for file in (*place["files"], *place.get("more", ())) for word in ("-f", file)]
    project = ["-p", place["project"]] if place.get("project") else []
    return ["compose", *files, *project]


def called(place: Place) -> str:
    """What messages call it."""
    return str(place.get("name") or f"the compose service {place['service']}")


def look(place: Place) -> Container | None:
    """The container that is meant, None where there is none.

    Raises AgentError where docker does not tell, or a service has several.
    """
    name = place.get("name")
    if name is None:
        done = ask([*compose(place), "ps", "-a", "-q", place["service"]], place)
        if done.returncode != 0:
            what = f"docker compose does not tell of {place['service']}"
            raise AgentError(
                "usage", what, place["files"][0], "correct server.compose and service", said(done)
            )
        found = done.stdout.decode().split()
        if len(found) > 1:
            what = f"{called(place)} has {len(found)} containers, and oeactl works with one"
            raise AgentError("refused", what, place["files"][0], "scale it down to one")
        if not found:
            return None
        name = found[0]
    return by_name(name)


def by_name(name: str) -> Container | None:
    """The container of this name or id; None where docker knows none."""
    document = _document("container", name)
    if document is None:
        return None
    state = document["State"]
    return Container(
        identity=document["Id"],
        name=document["Name"].lstrip("/"),
        running=bool(state["Running"]) and not state.get("Restarting"),
        pid=int(state["Pid"]),
        exit_code=int(state["ExitCode"]),
        restarts=int(document.get("RestartCount") or 0),
        restarting=bool(state.get("Restarting")),
        image=document["Image"],
        document=document,
    )


def image(name: str) -> dict[str, Any] | None:
    """What docker says of an image here; None where it has none of that name or id."""
    return _document("image", name)


def _document(kind: str, name: str) -> dict[str, Any] | None:
    done = ask(["inspect", "--type", kind, name])
    if done.returncode == 0:
        found: dict[str, Any] = json.loads(done.stdout)[0]
        return found
    lines = said(done)
    if any("no such" in line.lower() for line in lines):
        return None
    raise AgentError("refused", "docker does not tell of it", name, None, lines)


def inspect(place: Place) -> Container:
    """The container that is meant. Raises AgentError where there is none."""
    found = look(place)
    if found is None:
        raise missing(place)
    return found


def missing(place: Place) -> AgentError:
    if place.get("name") is None:
        what, hint = f"{called(place)} has no container", "oeactl start makes it"
    elif place.get("run"):
        what, hint = f"there is no container {called(place)}", "oeactl start makes it, as server.run says"
    else:
        what, hint = f"there is no container {called(place)}", "correct server.container, or add server.run"
    return AgentError("usage", what, called(place), hint)
