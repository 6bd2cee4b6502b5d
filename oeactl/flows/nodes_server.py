"""One server on several nodes: begun and ended together, ready when the first node answers and all live.

Owns: ports.Server over several. Refuses: to leave a part running whose others ended or did not begin: it
holds its GPUs and waits for them for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Generic, TypeVar

import msgspec

from oeactl.core.host import Launch, Process, ProofFile, ServerState
from oeactl.core.inventory import Host
from oeactl.core.nodes import joined_proofs, joined_states, launch_on
from oeactl.errors import Degraded, OeactlError, Refused
from oeactl.flows.nodes import first_error, on_each, reached
from oeactl.flows.side_by_side import side_by_side
from oeactl.ports import Failed, Follower, Progress, Ready, Server

S = TypeVar("S", bound=Server, covariant=True)


@dataclass(frozen=True, kw_only=True)
class NodeServer(Generic[S]):
    """One machine's part. host: what hosts.yaml says of it."""

    host: Host
    server: S

    @property
    def name(self) -> str:
        return self.host.node


Head = NodeServer[Server]
Tail = NodeServer[Follower]


class NodesServer:
    """ports.Server of several nodes."""

    def __init__(self, head: Head, tails: Sequence[Tail]) -> None:
        self._head = head
        self._tails = tuple(tails)
        self._begun: dict[str, Process] = {}

    @property
    def _servers(self) -> dict[str, Server]:
        return {self._head.name: self._head.server, **{tail.name: tail.server for tail in self._tails}}

    def state(self, *, health: bool = True) -> ServerState:
        """Of all nodes; ``health`` is the first one's. On a node that is away nothing is known to run."""
        first = self._head.name
        told, away = reached(
            {
                name: partial(server.state, health=health and name == first)
                for name, server in self._servers.items()
            }
        )
        unseen = {name: ServerState(recorded=None, listener=None) for name in away}
        return joined_states({name: {**told, **unseen}[name] for name in self._servers})

    def check(self, launch: Launch, *, alone: bool = False) -> None:
        launches = self._launches(launch)
        on_each(
            {
                name: partial(server.check, launches[name], alone=alone)
                for name, server in self._servers.items()
            }
        )

    def _launches(self, launch: Launch) -> dict[str, Launch]:
        head = self._head.host
        others = {tail.name: launch_on(tail.host, head, launch) for tail in self._tails}
        return {head.node: launch, **others}

    def start(self, launch: Launch) -> Process:
        """Begin every node's part. Where one cannot begin, those that could are ended again."""
        launches = self._launches(launch)
        works = {name: partial(server.start, launches[name]) for name, server in self._servers.items()}
        ended = side_by_side(list(works.values()))
        begun = {name: one.value for name, one in zip(works, ended, strict=True) if one and one.value}
        error = first_error(ended)
        if error is None:
            self._begun = begun
            return self._named(self._head.name, begun[self._head.name])
        if not isinstance(error, KeyboardInterrupt):  # then whoever began it puts things in order
            self._end(list(begun), Silent())
        raise error

    @staticmethod
    def _named(name: str, process: Process) -> Process:
        return msgspec.structs.replace(process, node=name)

    def await_ready(self, process: Process, launch: Launch, progress: Progress) -> Ready | Failed:
        """Wait for the first node's answer, and for the end of any: then the rest is ended too."""
        wait = _Wait(self._head, self._tails, self._begun, launch, progress)
        outcome = wait.run()
        if isinstance(outcome, Ready):
            outcome = self._all_joined(outcome)
        if isinstance(outcome, Failed):
            self._end_if_broken(progress)
        return outcome

    def _all_joined(self, ready: Ready) -> Ready | Failed:
        names = [tail.name for tail in self._tails]
        works = {
            name: partial(tail.server.joined, self._begun[name])
            for name, tail in zip(names, self._tails, strict=True)
        }
        for name, outcome in on_each(works).items():
            if isinstance(outcome, Failed):
                return _of(name, outcome)
        head = self._head.name
        return msgspec.structs.replace(ready, process=self._named(head, ready.process))

    def _end_if_broken(self, progress: Progress) -> None:
        """End the rest where a part has ended; where all still live, a person may want to look at them."""
        states = on_each({name: partial(one.state, health=False) for name, one in self._servers.items()})
        up = [name for name, state in states.items() if state.recorded is not None]
        if len(up) < len(states):
            self._end(up, progress)

    def _end(self, names: Sequence[str], progress: Progress) -> None:
        """Raises Degraded where a part stays."""
        servers = self._servers
        works = [partial(servers[name].stop, progress) for name in names]
        error = first_error(side_by_side(works))
        if isinstance(error, OeactlError):
            what = f"a part of the server was left running: {error.what}"
            raise Degraded(what, where=error.where, hint="oeactl stop", details=error.details) from error
        if error is not None:
            raise error

    def stop(self, progress: Progress, *, foreign: bool = False) -> None:
        """The first node's part first, for it hands out the work; then all others, whatever came of it.

        Nothing is ended where the first one refuses.
        """
        (first,) = side_by_side([partial(self._head.server.stop, progress, foreign=foreign)])
        error = first_error([first])
        if not isinstance(error, Refused | KeyboardInterrupt):
            rest = [partial(tail.server.stop, progress, foreign=foreign) for tail in self._tails]
            error = first_error([*side_by_side(rest), first])
        if error is not None:
            raise error

    def log_lines(self, count: int) -> tuple[str, ...]:
        """Each node's last lines, under its name."""
        told = on_each({name: partial(server.log_lines, count) for name, server in self._servers.items()})
        return tuple(line for name, lines in told.items() if lines for line in (f"==> {name} <==", *lines))

    def follow_log(self, count: int) -> AbstractContextManager[Iterator[str]]:
        """The first node's."""
        return self._head.server.follow_log(count)

    def proofs(self) -> tuple[ProofFile, ...]:
        told, _ = reached({name: server.proofs for name, server in self._servers.items()})
        return joined_proofs(told)


def _of(name: str, failed: Failed) -> Failed:
    return msgspec.structs.replace(failed, why=f"{name}: {failed.why}")


class _Over(Exception):
    """The wait was decided on another node."""


class _Wait:
    """All nodes are waited for at once; the first that tells how it went decides."""

    def __init__(
        self,
        head: Head,
        tails: Sequence[Tail],
        begun: Mapping[str, Process],
        launch: Launch,
        progress: Progress,
    ) -> None:
        self._head, self._tails, self._begun = head, tails, begun
        self._launch, self._progress = launch, progress
        self._turn = Lock()
        self._decided: Ready | Failed | None = None
        self._led = False

    def run(self) -> Ready | Failed:
        works: list[Callable[[], None]] = [self._lead, *(partial(self._follow, tail) for tail in self._tails)]
        ended = side_by_side(works)
        error = first_error([one for one in ended if one is None or not isinstance(one.error, _Over)])
        if error is not None and (self._decided is None or isinstance(error, KeyboardInterrupt)):
            raise error
        assert self._decided is not None
        return self._decided

    def _lead(self) -> None:
        name = self._head.name
        told = Until(self._progress, self._over)
        try:
            outcome = self._head.server.await_ready(self._begun[name], self._launch, told)
            self._decide(outcome if isinstance(outcome, Ready) else _of(name, outcome))
        finally:
            self._led = True

    def _follow(self, tail: Tail) -> None:
        name = tail.name
        self._decide(_of(name, tail.server.watch(self._begun[name], Until(Silent(), self._over))))

    def _decide(self, outcome: Ready | Failed) -> None:
        with self._turn:
            self._decided = self._decided or outcome

    def _over(self) -> None:
        if self._decided is not None or self._led:
            raise _Over


class Silent:
    """ports.Progress of what nobody watches."""

    def step(self, text: str) -> None: ...

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None: ...

    def note(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...


class Until:
    """ports.Progress that ends a wait, by what ``over`` raises, at the next word of it."""

    def __init__(self, progress: Progress, over: Callable[[], None]) -> None:
        self._progress = progress
        self._over = over

    def step(self, text: str) -> None:
        self._progress.step(text)

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None:
        self._over()
        self._progress.update(text, done=done, total=total)

    def note(self, text: str) -> None:
        self._progress.note(text)

    def warn(self, text: str) -> None:
        self._progress.warn(text)
