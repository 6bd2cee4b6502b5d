"""The engine's files inside a docker container, patched in place.

Owns: ports.Files over an agent in the container, and what the docker host remembers of it: a container that
was made anew has its image's files again, and that is noticed. Refuses: file work while it does not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from oeactl.core.host import (
    EngineFacts,
    Holder,
    HostFacts,
    Journal,
    Pending,
    Survey,
    SurveyRequest,
    Transaction,
    Written,
)
from oeactl.core.inventory import ServerSpec
from oeactl.edges.files import AgentFiles
from oeactl.errors import Refused
from oeactl.ports import Agent


def place_of(server: ServerSpec) -> dict[str, Any]:
    """Which container a server's entry means, as the agent wants it: by name, or by compose's files and
    service. env: of docker's own process, for what its arguments or compose's file leave to it.
    """
    if server.manager == "compose":
        where = {"files": list(server.compose), "project": server.project, "service": server.service}
        return {**where, "env": dict(server.env)}
    return {"name": server.container, "run": list(server.run), "env": dict(server.env)}


def container_name(outer: Agent, container: Mapping[str, Any]) -> str:
    """What docker calls the container now. Raises UsageError where a service has none."""
    if container.get("name"):
        return str(container["name"])
    return str(outer.ask("container.name", container=container))


def compose_words(container: Mapping[str, Any]) -> tuple[str, ...]:
    """docker's words before a command of compose; none for a container by name."""
    if container.get("name"):
        return ()
    files = [word for file in container["files"] for word in ("-f", file)]
    return ("compose", *files, *(("-p", container["project"]) if container["project"] else ()))


class ContainerFiles:
    """ports.Files. inner: an agent in the container; outer: one on its docker host; container: ``place_of``.

    place: root and state_dir of the record on the docker host; leases are there, since they outlast a stop.
    """

    def __init__(
        self, inner: Agent, outer: Agent, *, container: dict[str, Any], place: dict[str, Any]
    ) -> None:
        self._files = AgentFiles(inner)
        self._outer = outer
        self._outside = AgentFiles(outer)
        self._container = container
        self._name = str(container.get("name") or container["service"])
        self._place = place
        self._last: Survey | None = None

    def survey(self, request: SurveyRequest) -> Survey:
        """Look inside; at rest, what was seen last, without files."""
        known = self._known()
        kept = msgspec.convert(known["kept"]["survey"], Survey) if known["kept"] else None
        if known["running"]:
            survey = self._last = self._files.survey(request)
            gone = self._gone(known, kept, survey)
            if not gone:
                self._keep(known["identity"], survey)
        else:
            fresh = _unseen(request)
            gone = self._gone(known, kept, fresh)
            seen = fresh if gone or kept is None else kept
            survey = msgspec.structs.replace(seen, at_rest=True)
        journal = self._journal(survey.journal, gone, running=known["running"])
        return msgspec.structs.replace(survey, journal=journal)

    def root(self, request: SurveyRequest) -> str:
        return self.survey(request).engine.root

    def write(self, transaction: Transaction) -> Written:
        known = self._known()
        if transaction.kind == "patch" and known["removed"]:
            raise Refused(
                f"{self._name} was made with --rm: its stop removes it, and the patch with it",
                where=self._outer.name,
                hint="make it without --rm",
            )
        running = known["running"]
        written = self._files.write(transaction) if running else self._put_back(transaction, known)
        self._refresh(written.journal)
        return written

    def _put_back(self, transaction: Transaction, known: dict[str, Any]) -> Written:
        """What undoes a change whose container does not come up with it. Raises Refused for all else."""
        if transaction.kind == "patch" or not known["kept"]:
            raise Refused(
                f"the container {self._name} does not run, and its files are inside",
                where=self._outer.name,
                hint="oeactl start; then this again",
            )
        kept = self._last = msgspec.convert(known["kept"]["survey"], Survey)
        fields = msgspec.to_builtins(transaction)
        answer = self._outer.ask(
            "container.put_back",
            container=self._container,
            inside=kept.host.state_dir,
            files=fields["files"],
            layers=fields["layers"],
        )
        journal = msgspec.convert(answer, Journal)
        note = f"the container {self._name} does not run: put back by docker cp"
        return Written(operation=transaction.operation, journal=journal, notes=(note,))

    def recover(self, *, root: str, state_dir: str | None, force: bool = False) -> Journal:
        known = self._known()
        kept = msgspec.convert(known["kept"]["survey"], Survey) if known["kept"] else None
        if not known["running"]:
            raise Refused(f"the container {self._name} does not run", hint="oeactl start")
        journal = self._files.recover(root=root, state_dir=state_dir, force=force)
        names = [layer.recipe for layer in kept.journal.layers] if kept else []
        self._refresh(journal)
        if names and not journal.layers and not journal.recovered:
            recovered = (
                f"{', '.join(names)}: gone with the container, which was made anew; the record is closed"
            )
            return msgspec.structs.replace(journal, recovered=recovered)
        return journal

    def lease(
        self, *, root: str, state_dir: str | None, operation: str, what: str, holder: Holder, lease_s: float
    ) -> None:
        self._outside.lease(operation=operation, what=what, holder=holder, lease_s=lease_s, **self._place)

    def settle(self, *, root: str, state_dir: str | None, operation: str) -> None:
        self._outside.settle(operation=operation, **self._place)
        if self._known()["running"]:
            self._files.settle(root=root, state_dir=state_dir, operation=operation)

    def _known(self) -> dict[str, Any]:
        answer = self._outer.ask("container.known", container=self._container, **self._place)
        assert isinstance(answer, dict)
        return answer

    def _gone(self, known: dict[str, Any], kept: Survey | None, now: Survey) -> tuple[str, ...]:
        """Recipes that an earlier container of this name had, and this one has not."""
        if kept is None or known["kept"]["identity"] == known["identity"]:
            return ()
        still = {layer.operation for layer in now.journal.layers}
        return tuple(layer.recipe for layer in kept.journal.layers if layer.operation not in still)

    def _journal(self, journal: Journal, gone: tuple[str, ...], *, running: bool) -> Journal:
        outside = self._outside.journal(**self._place)
        pending = journal.pending
        if (
            gone and running and pending is None
        ):  # the next patch or revert closes the record, as it does a leftover one
            pending = Pending(operation="", kind="clear", started_at="")
        return msgspec.structs.replace(
            journal, lease=outside.lease or journal.lease, gone=gone, pending=pending
        )

    def _refresh(self, journal: Journal) -> None:
        if self._last is not None:
            self._keep(self._known()["identity"], msgspec.structs.replace(self._last, journal=journal))

    def _keep(self, identity: str, survey: Survey) -> None:
        """What a look at rest needs, without any bytes; nothing where nothing is applied."""
        records = tuple(msgspec.structs.replace(one, pristine=None) for one in survey.journal.files)
        journal = msgspec.structs.replace(survey.journal, files=records, lease=None, gone=())
        seen = msgspec.structs.replace(survey, files=(), journal=journal, model=None)
        kept = {"identity": identity, "survey": msgspec.to_builtins(seen)} if journal.layers else None
        self._outer.ask("container.keep", container=self._container, seen=kept, **self._place)


def _unseen(request: SurveyRequest) -> Survey:
    """A container that never ran since it was named here: nothing of ours can be in it."""
    root = request.root or ""
    return Survey(
        host=HostFacts(
            hostname="", user="", uid=0, boot_id="", time=0.0, cpus=1, memory_bytes=0, kernel="", state_dir=""
        ),
        engine=EngineFacts(package=request.package, root=root, version=None, python_version=""),
        files=(),
        journal=Journal(root=root),
    )
