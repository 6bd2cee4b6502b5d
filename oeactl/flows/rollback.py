"""Put a failed change back: first the files, then the server as it was, proven healthy.

Works from what the host's journal says, so it is right whether the write happened, did not, or is unknown
because the connection broke in the middle. Each step may be repeated: a Ctrl-C in the middle of it, which an
impatient hand sends easily, is not the end of it; one more is.
"""

from __future__ import annotations

from typing import Literal

from oeactl.core.host import FileWrite, Process, ServerState, Survey, Transaction
from oeactl.core.launch import launch_of
from oeactl.core.plan import Planned
from oeactl.errors import Degraded, OeactlError
from oeactl.flows.lease import LEASE_S
from oeactl.flows.lifecycle import is_running, last_words, server_of
from oeactl.flows.prove import exercise
from oeactl.flows.site import Site, look_settled
from oeactl.ports import Failed


class Rollback:
    """What it takes to put one change back. was: the server before, if it was touched; None leaves it alone.

    why: what went wrong with the change, one line. untouched: after ``run``, whether the change had never
    reached the disk.
    """

    def __init__(
        self, site: Site, before: Survey, plan: Planned, was: ServerState | None, *, operation: str, why: str
    ) -> None:
        self.untouched: bool | None = None
        self._site = site
        self._before = before
        self._plan = plan
        self._was = was
        self._operation = operation
        self._why = why
        self._stage: Literal["files", "server"] = "files"
        self._begun: Process | None = None
        self._baseline_fails = False

    def run(self) -> None:
        """Restore files and server. Raises Degraded, with the manual commands, where that cannot be done."""
        try:
            try:
                self._run()
            except KeyboardInterrupt:
                self._site.progress.warn("still putting everything back; Ctrl-C again leaves it as it is now")
                self._run()
        except KeyboardInterrupt:
            raise self._degraded("interrupted") from None
        except OeactlError as error:
            raise self._degraded(error.what, error.details) from error

    def _run(self) -> None:
        self._site.progress.step("putting everything back")
        now = look_settled(self._site, tuple(file.module for file in self._plan.files))
        stand = self._stand(now)
        if self.untouched is None:
            self.untouched = stand
        if not stand:
            self._site.files.write(self._inverse())
        self._stage = "server"
        if self._was is not None:
            self._server_back(self._was)

    def _stand(self, now: Survey) -> bool:
        """Whether nothing of the change is on the disk; what somebody else wrote meanwhile is none of it."""
        changed = {file.path: file.after_sha256 for file in self._plan.files}
        return now.journal.layers == self._before.journal.layers and all(
            file.sha256 != changed.get(file.path) for file in now.files
        )

    def _inverse(self) -> Transaction:
        return Transaction(
            operation=self._operation,
            kind="rollback",
            root=self._before.engine.root,
            state_dir=self._site.host.state_dir,
            files=tuple(
                FileWrite(
                    module=file.module,
                    path=file.path,
                    before_sha256=file.after_sha256,
                    after=file.before,
                    after_sha256=file.before_sha256,
                    pristine_sha256=file.pristine_sha256,
                )
                for file in self._plan.files
            ),
            layers=self._before.journal.layers,
            holder=self._site.holder,
            what=f"roll back {self._plan.recipe}",
            lease_s=LEASE_S if self._was is not None else None,
        )

    def _server_back(self, was: ServerState) -> None:
        """A server that ran is replaced by one with the old code; what we began is ended in any case.

        Whether something is left to end is for the host to find out: a process that was just begun may not
        be seen yet.
        """
        site, server = self._site, server_of(self._site)
        launch = launch_of(site.host, self._before.journal.layers)
        if self._begun is None:
            site.progress.step("stopping the server")
            server.stop(site.progress, foreign=was.recorded is None and was.listener is not None)
            if not is_running(was):
                return
            site.progress.step("starting the server with the old code")
            self._begun = server.start(launch)
        site.progress.step("waiting until it answers")
        outcome = server.await_ready(self._begun, launch, site.progress)
        failed = outcome if isinstance(outcome, Failed) else exercise(site, self._before.journal.layers)
        if failed is not None:
            self._baseline_fails = True
            raise Degraded(failed.why, details=last_words(failed))

    def _degraded(self, problem: str, details: tuple[str, ...] = ()) -> Degraded:
        name = self._site.host.name
        commands: tuple[str, ...]
        if self._stage == "files":
            what = f"putting the files back failed too: {problem}"
            note = f"{self._before.host.state_dir}/RESTORE.txt"
            commands = (
                f"oeactl revert --host {name}",
                f"oeactl start --host {name}",
                f"or, on the host without oeactl: the cp commands in {note}",
            )
        else:
            what = f"the files are back as they were, but the server is not: {problem}"
            if self._baseline_fails:
                what = (
                    "the files are back as they were, and the server does not come up with them either: "
                    f"baseline unstable, so the change may not be to blame: {problem}"
                )
            commands = (f"oeactl logs --host {name}", f"oeactl restart --host {name}")
        return Degraded(
            f"{self._why}; {what}",
            where=name,
            hint=commands[0],
            details=(*details, "to put the host back by hand:", *(f"  {command}" for command in commands)),
        )
