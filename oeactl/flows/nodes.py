"""The engine's files on every node of one server: changed on all nodes or on none.

A transaction is one message a node, all at once. Where one node refuses or cannot be reached, those that had
done it take it back before anything else happens. Owns: ports.Files over several. Refuses: to decide what is
changed (the plan is one for all nodes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from oeactl.core.host import Holder, Journal, Survey, SurveyRequest, Transaction, Written
from oeactl.core.inventory import Host
from oeactl.core.nodes import inverse, joined, joined_journals, on, part
from oeactl.errors import ConnectionLost, Degraded, OeactlError, Unreachable
from oeactl.flows.side_by_side import Ended, side_by_side
from oeactl.flows.site import survey_request
from oeactl.ports import Files

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class NodeFiles:
    """One machine of several. host: what hosts.yaml says of it."""

    host: Host
    files: Files

    @property
    def name(self) -> str:
        return self.host.node


def first_error(ended: Sequence[Ended[T] | None]) -> BaseException | None:
    """What went wrong, a Ctrl-C before all else; None where nothing did.

    Nothing but a Ctrl-C keeps one from its beginning, for none is left alone because another failed.
    """
    if None in ended:
        return KeyboardInterrupt()
    errors = [one.error for one in ended if one is not None and one.error is not None]
    return next((error for error in errors if isinstance(error, KeyboardInterrupt)), None) or next(
        iter(errors), None
    )


def on_each(works: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Do it on every node at once; what came of it by node. Raises what the first of them raised."""
    ended = side_by_side(list(works.values()))
    error = first_error(ended)
    if error is not None:
        raise error
    return {name: one.value for name, one in zip(works, ended, strict=True) if one is not None}  # type: ignore[misc]


def reached(works: Mapping[str, Callable[[], T]]) -> tuple[dict[str, T], dict[str, str]]:
    """As ``on_each``, but a node that cannot be reached is only told of: name -> why. One at least must be.

    A connection that broke is raised: it may hold in a moment.
    """
    ended = dict(zip(works, side_by_side(list(works.values())), strict=True))
    away = {}
    for name, one in ended.items():
        error = one.error if one is not None else None
        if isinstance(error, Unreachable) and not isinstance(error, ConnectionLost):
            away[name] = error.what
    if len(away) == len(ended):
        away = {}
    there = {name: one for name, one in ended.items() if name not in away}
    error = first_error(list(there.values()))
    if error is not None:
        raise error
    return {name: one.value for name, one in there.items() if one is not None}, away  # type: ignore[misc]


class NodesFiles:
    """ports.Files of several nodes, the first of which answers. Their journals and engines are their own."""

    def __init__(self, host: Host, nodes: Sequence[NodeFiles]) -> None:
        self._host = host
        self._nodes = {node.name: node for node in nodes}
        self._seen: dict[str, Survey] = {}

    def survey(self, request: SurveyRequest) -> Survey:
        """Of all nodes. Those that cannot be reached are ``away``: what changes anything refuses then.

        Raises Unreachable where none can.
        """
        works = {
            name: partial(node.files.survey, survey_request(node.host, request.modules, data=request.data))
            for name, node in self._nodes.items()
        }
        self._seen, away = reached(works)
        return joined(self._seen, away)

    def _root(self, name: str) -> str:
        if name not in self._seen:
            node = self._nodes[name]
            self._seen[name] = node.files.survey(survey_request(node.host, (), data=False))
        return self._seen[name].engine.root

    @property
    def _here(self) -> list[str]:
        """Who was reached by the last look; everybody, where there was none."""
        return list(self._seen) or list(self._nodes)

    def write(self, transaction: Transaction) -> Written:
        parts = {
            name: part(transaction, name, root=self._root(name), host=node.host)
            for name, node in self._nodes.items()
        }
        ended = side_by_side([partial(self._nodes[name].files.write, each) for name, each in parts.items()])
        error = first_error(ended)
        if error is not None:
            if transaction.kind != "rollback":  # which is a way back itself: as far as it came is to the good
                self._take_back(parts, dict(zip(parts, ended, strict=True)), error)
            raise error
        written = {name: one.value for name, one in zip(parts, ended, strict=True) if one and one.value}
        return Written(
            operation=transaction.operation,
            journal=joined_journals({name: one.journal for name, one in written.items()}),
            notes=tuple(on(name, note) for name, one in written.items() for note in one.notes),
        )

    def _take_back(
        self,
        parts: Mapping[str, Transaction],
        ended: Mapping[str, Ended[Written] | None],
        error: BaseException,
    ) -> None:
        """Undo it on the nodes that did it. Raises Degraded where that fails too."""
        undone = []
        for name, how in ended.items():
            if how is not None and (how.value is not None or _unknown(how.error)):
                undone.append(partial(self._undo, name, parts[name]))
        failed = first_error(side_by_side(undone))
        if failed is None:
            return
        if isinstance(failed, KeyboardInterrupt):
            raise failed
        raise Degraded(
            f"{_text(error)}; and the other nodes could not be put back: {_text(failed)}",
            where=self._host.name,
            hint=f"oeactl revert --host {self._host.name}",
            details=failed.details if isinstance(failed, OeactlError) else (),
        ) from error

    def _undo(self, name: str, made: Transaction) -> None:
        """Put one node back, whether or not the change reached it."""
        node, before = self._nodes[name], self._seen[name]
        try:
            back = inverse(made, before)
        except ValueError as blind:
            raise Degraded(str(blind), where=node.host.name) from blind
        modules = tuple(file.module for file in made.files)
        now = node.files.survey(survey_request(node.host, modules, data=False))
        if now.journal.pending is not None:
            node.files.recover(root=made.root, state_dir=made.state_dir)
        node.files.write(back)

    def recover(self, *, root: str, state_dir: str | None, force: bool = False) -> Journal:
        """Finish or undo on each node what was cut short there."""
        works = {
            name: partial(
                node.files.recover, root=self._root(name), state_dir=node.host.state_dir, force=force
            )
            for name, node in self._nodes.items()
        }
        return joined_journals(on_each(works))

    def lease(
        self, *, root: str, state_dir: str | None, operation: str, what: str, holder: Holder, lease_s: float
    ) -> None:
        """On every node that is there, in the order of their names, or on none."""
        taken = []
        try:
            for name in sorted(self._here):
                node = self._nodes[name]
                node.files.lease(
                    root=self._root(name),
                    state_dir=node.host.state_dir,
                    operation=operation,
                    what=what,
                    holder=holder,
                    lease_s=lease_s,
                )
                taken.append(name)
        except BaseException:
            side_by_side([self._settling(name, operation) for name in taken])
            raise

    def settle(self, *, root: str, state_dir: str | None, operation: str) -> None:
        error = first_error(side_by_side([self._settling(name, operation) for name in self._here]))
        if error is not None:
            raise error

    def _settling(self, name: str, operation: str) -> Callable[[], None]:
        node = self._nodes[name]
        return partial(
            node.files.settle, root=self._root(name), state_dir=node.host.state_dir, operation=operation
        )


def _unknown(error: BaseException | None) -> bool:
    """Whether the node may have done it all the same."""
    return isinstance(error, ConnectionLost | KeyboardInterrupt)


def _text(error: BaseException) -> str:
    if isinstance(error, OeactlError):
        return f"{error.where}: {error.what}" if error.where else error.what
    return "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
