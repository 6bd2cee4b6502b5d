"""A server in a docker container: one by name, or that of a compose service.

Owns: ports.Server over docker, on the docker host. Refuses: to start it with other arguments or another
environment than it was made with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from oeactl.core.host import Launch, Process, ProofFile, ServerState
from oeactl.core.redact import redact_text
from oeactl.edges.containers import compose_words
from oeactl.edges.servers.process import STATE_S, ProcessServer
from oeactl.errors import Refused
from oeactl.ports import Agent, Failed, Progress, Ready

START_S = 600.0  # an image may have to be unpacked


class DockerServer(ProcessServer):
    """ports.Server by docker. agent: on the docker host; inner: in the container; container: which one
    (``oeactl.edges.containers.place_of``).

    place: root and state_dir are those of the record on the docker host. inside: the engine's root and state
    folder in the container, asked late.
    """

    def __init__(
        self, agent: Agent, *, container: Mapping[str, Any], inner: Agent, inside: Any, **place: Any
    ) -> None:
        super().__init__(agent, log="", **place)
        self._container = dict(container)
        self._inner = inner
        self._inside = inside

    def state(self, *, health: bool = True) -> ServerState:
        answer = self._agent.ask(
            "container.state", timeout_s=STATE_S, health=health, container=self._container, **self._place
        )
        return msgspec.convert(answer, ServerState)

    def check(self, launch: Launch, *, alone: bool = False) -> None:
        """Nothing: the container that runs is the one that is started again, as it was made."""

    def start(self, launch: Launch) -> Process:
        answer = self._agent.ask(
            "container.start",
            timeout_s=START_S + 60.0,
            container=self._container,
            deadline_s=START_S,
            **self._place,
        )
        return msgspec.convert(answer, Process)

    def await_ready(self, process: Process, launch: Launch, progress: Progress) -> Ready | Failed:
        return self._await_ready(process, progress, container=self._container)

    def stop(self, progress: Progress, *, foreign: bool = False) -> None:
        """Let docker stop it: its owner named the container, so whose server it ends is not asked."""
        known = self._agent.ask("container.known", container=self._container, **self._place)
        if known["removed"] and not self._container["run"]:
            name = self._container["name"]
            raise Refused(
                f"{name} was made with --rm: its stop removes it, and nothing here could make it again",
                where=self._agent.name,
                hint=f"oeactl adopt --container {name} --replace writes server.run; or docker stop {name}",
            )
        place, seconds = self._container, str(max(1, round(self._stop_timeout_s)))
        words = ["stop", "-t", seconds, place.get("name") or place["service"]]
        command = ["docker", *compose_words(place), *words]
        self._stop(progress, command=command, env=place["env"])
        self._agent.ask("container.ended", container=self._container, **self._place)

    def log_lines(self, count: int) -> tuple[str, ...]:
        lines = self._agent.ask("container.log", container=self._container, count=count)
        return tuple(map(redact_text, lines))

    @contextmanager
    def follow_log(self, count: int) -> Iterator[Iterator[str]]:
        with self._agent.watch("container.follow", container=self._container, count=count) as events:
            yield (redact_text(line) for event in events for line in event.get("lines", ()))

    def proofs(self) -> tuple[ProofFile, ...]:
        """Those in the container; none while it does not run."""
        known = self._agent.ask("container.known", container=self._container, **self._place)
        if not known["running"]:
            return ()
        answer = self._inner.ask("server.proofs", **self._inside())
        return msgspec.convert(answer["proofs"], tuple[ProofFile, ...])
