"""The engine's files in a docker container, changed from outside: kept on the docker host, beside it.

Owns: ports.Files for ``patch_mode`` overlay and prelude, and the choice between these and in place: what is
on a container governs until it is off again, whatever hosts.yaml says by now. Refuses: to mix the two.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import msgspec

from oeactl.core.host import (
    EngineFacts,
    FileState,
    Holder,
    HostFacts,
    Journal,
    PatchMode,
    Pending,
    Survey,
    SurveyRequest,
    Transaction,
    Written,
)
from oeactl.core.standing import hash_of
from oeactl.edges.containers import ContainerFiles
from oeactl.edges.files import WRITE_S, AgentFiles
from oeactl.errors import Refused
from oeactl.ports import Agent

CREATE_S = 900.0  # docker may have to lay out an image


class BesideFiles:
    """ports.Files. inner: an agent in the container; outer: one on its docker host; container: ``place_of``.

    place: root and state_dir of the record on the docker host. python: the container's interpreter.
    """

    def __init__(
        self,
        inner: Agent,
        outer: Agent,
        *,
        container: dict[str, Any],
        place: dict[str, Any],
        mode: PatchMode,
        python: str,
    ) -> None:
        self._inner = inner
        self._outer = outer
        self._outside = AgentFiles(outer)
        self._container = container
        self._name = str(container.get("name") or container["service"])
        self._place = place
        self._mode = mode
        self._python = python
        self._last: Survey | None = None

    def survey(self, request: SurveyRequest) -> Survey:
        """The engine as the container has it, its recorded files as the next start will have them."""
        known = self._outer.ask("container.known", container=self._container, **self._place)
        told = self._outer.ask("beside.look", container=self._container, data=request.data, **self._place)
        journal = msgspec.convert({**told["journal"], "root": told["root"] or ""}, Journal)
        if known["running"]:
            recorded = (record.module for record in journal.files)
            modules = tuple(dict.fromkeys((*request.modules, *recorded)))
            seen = AgentFiles(self._inner).survey(msgspec.structs.replace(request, modules=modules))
            if journal.layers:
                self._keep(known["identity"], seen)
        else:
            kept = known["kept"] and known["kept"]["survey"]
            seen = msgspec.convert(kept, Survey) if kept else _unseen(request, told["root"])
            seen = msgspec.structs.replace(seen, at_rest=True, files=())
        if told["cut_short"]:
            pending = Pending(operation="", kind="change of containers", started_at="before")
            journal = msgspec.structs.replace(journal, pending=pending)
        journal = msgspec.structs.replace(journal, root=seen.engine.root)
        self._last = msgspec.structs.replace(
            seen,
            files=self._files(seen, journal, told, data=request.data),
            journal=journal,
            patch_mode=told["mode"] or self._mode,
            mounted=told["mounted"],
        )
        return self._last

    def _files(
        self, seen: Survey, journal: Journal, told: dict[str, Any], *, data: bool
    ) -> tuple[FileState, ...]:
        found = {file.path: self._settable(file) for file in seen.files}
        for path, text in told["left_over"].items():
            if path in found:
                found[path] = _holding(found[path], _bytes(text), data=data)
        for record in journal.files:
            inside = found.get(record.path)
            state = inside or FileState(module=record.module, path=record.path)
            covered = record.path in told["covered"]
            drifted = inside is not None and not covered and inside.sha256 != record.pristine_sha256
            if drifted and not told["same_image"]:  # the files of another image: our change went with the old
                found[record.path] = msgspec.structs.replace(state, record_sha256=state.sha256)
                continue
            kept = _bytes(told["files"].get(record.path))
            state = msgspec.structs.replace(state, mode=record.mode)
            found[record.path] = _holding(state, kept, data=data)
        return tuple(found.values())

    def _settable(self, file: FileState) -> FileState:
        """With a mount over it, nothing inside needs to be writable."""
        if self._mode != "overlay" or not (file.sha256 or file.missing):
            return file
        return msgspec.structs.replace(file, writable=True, problem=None)

    def root(self, request: SurveyRequest) -> str:
        return (self._last or self.survey(request)).engine.root

    def write(self, transaction: Transaction) -> Written:
        """Try the files in the container, then keep them here. The container has them from its next start."""
        if transaction.kind == "patch":
            if self._last is None or self._last.at_rest:
                what = f"the container {self._name} does not run, so nothing can be tried in it"
                raise Refused(what, where=self._outer.name, hint="oeactl start; then this again")
            self._try(transaction)
        seen = {file.path: file for file in self._last.files} if self._last else {}
        new = {wanted.path for wanted in transaction.files}
        answer = self._outer.ask(
            "beside.write",
            timeout_s=CREATE_S,
            **{**msgspec.to_builtins(transaction), **self._place},
            container=self._container,
            mode=self._mode,
            python=self._python,
            engine=transaction.root,
            originals={path: seen[path].data for path in new if path in seen and seen[path].data is not None},
            owners={
                path: {"mode": seen[path].mode, "uid": seen[path].uid, "gid": seen[path].gid}
                for path in new
                if path in seen and not seen[path].missing
            },
        )
        return msgspec.convert(answer, Written)

    def _try(self, transaction: Transaction) -> None:
        probing_s = 2 * transaction.probe.timeout_s if transaction.probe else 0.0
        self._inner.ask(
            "attempt",
            timeout_s=WRITE_S + probing_s,
            files=msgspec.to_builtins(transaction.files),
            probe=msgspec.to_builtins(transaction.probe),
        )

    def recover(self, *, root: str, state_dir: str | None, force: bool = False) -> Journal:
        answer = self._outer.ask(
            "beside.recover", timeout_s=CREATE_S, container=self._container, **self._place
        )
        return msgspec.convert(answer, Journal)

    def lease(
        self, *, root: str, state_dir: str | None, operation: str, what: str, holder: Holder, lease_s: float
    ) -> None:
        self._outside.lease(operation=operation, what=what, holder=holder, lease_s=lease_s, **self._place)

    def settle(self, *, root: str, state_dir: str | None, operation: str) -> None:
        self._outside.settle(operation=operation, **self._place)

    def _keep(self, identity: str, seen: Survey) -> None:
        """What a look at rest needs of the engine and its host."""
        bare = msgspec.structs.replace(seen, files=(), journal=Journal(root=seen.engine.root), model=None)
        kept = {"identity": identity, "mode": self._mode, "survey": msgspec.to_builtins(bare)}
        self._outer.ask("container.keep", container=self._container, seen=kept, **self._place)


def _holding(state: FileState, content: bytes | None, *, data: bool) -> FileState:
    """The state of a file that will hold ``content`` from the next start on; None for no file."""
    return msgspec.structs.replace(
        state,
        missing=content is None,
        sha256=hash_of(content),
        size=len(content or b""),
        data=content if data else None,
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _unseen(request: SurveyRequest, root: str | None) -> Survey:
    return Survey(
        host=HostFacts(
            hostname="", user="", uid=0, boot_id="", time=0.0, cpus=1, memory_bytes=0, kernel="", state_dir=""
        ),
        engine=EngineFacts(
            package=request.package, root=root or request.root or "", version=None, python_version=""
        ),
        files=(),
        journal=Journal(root=root or ""),
    )


class ModalFiles:
    """ports.Files of a container: in place or from outside, as it was patched, else as hosts.yaml says."""

    def __init__(
        self,
        inner: Agent,
        outer: Agent,
        *,
        container: dict[str, Any],
        place: dict[str, Any],
        mode: PatchMode,
        python: str,
    ) -> None:
        self._outer = outer
        self._container = container
        self._place = place
        self._wanted = mode
        self._applied: PatchMode = mode
        common: dict[str, Any] = {"container": container, "place": place}
        self._inside = ContainerFiles(inner, outer, **common)
        self._beside = {
            one: BesideFiles(inner, outer, mode=one, python=python, **common)
            for one in ("overlay", "prelude")
        }

    def _chosen(self) -> ContainerFiles | BesideFiles:
        return self._inside if self._applied == "inplace" else self._beside[self._applied]

    def survey(self, request: SurveyRequest) -> Survey:
        known = self._outer.ask("container.known", container=self._container, **self._place)
        self._applied = known["applied"] or self._wanted
        survey = self._chosen().survey(request)
        return msgspec.structs.replace(survey, patch_mode=self._applied)

    def root(self, request: SurveyRequest) -> str:
        return self.survey(request).engine.root

    def write(self, transaction: Transaction) -> Written:
        if transaction.kind == "patch" and self._applied != self._wanted:
            raise Refused(
                f"what is on this container was put there by patch_mode {self._applied}, not {self._wanted}",
                where=self._outer.name,
                hint=f"oeactl revert first, or patch_mode: {self._applied}",
            )
        return self._chosen().write(transaction)

    def recover(self, *, root: str, state_dir: str | None, force: bool = False) -> Journal:
        return self._chosen().recover(root=root, state_dir=state_dir, force=force)

    def lease(
        self, *, root: str, state_dir: str | None, operation: str, what: str, holder: Holder, lease_s: float
    ) -> None:
        self._chosen().lease(
            root=root, state_dir=state_dir, operation=operation, what=what, holder=holder, lease_s=lease_s
        )

    def settle(self, *, root: str, state_dir: str | None, operation: str) -> None:
        self._chosen().settle(root=root, state_dir=state_dir, operation=operation)
