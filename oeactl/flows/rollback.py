"""Put a failed change back: first the files, then the server as it was, proven healthy.

Works from what the host's journal says, so it is right whether the write happened, did not, or is unknown
because the connection broke in the middle.
"""

from __future__ import annotations

from oeactl.core.host import FileWrite, ServerState, Survey, Transaction
from oeactl.core.launch import launch_of
from oeactl.core.plan import Planned
from oeactl.errors import Degraded, OeactlError
from oeactl.flows.lifecycle import bring_up, is_running, server_of, take_down
from oeactl.flows.prove import exercise
from oeactl.flows.site import Site, look_settled
from oeactl.ports import Failed


def put_back(site: Site, before: Survey, plan: Planned, was: ServerState | None, *, operation: str) -> bool:
    """Restore files and server. Returns True when the change had never reached the disk.

    Raises Degraded, with the manual commands, when the host cannot be brought back.
    """
    site.progress.step("putting everything back")
    try:
        now = look_settled(site, tuple(file.module for file in plan.files))
        untouched = _files_stand(now, before, plan)
        if not untouched:
            site.files.write(_inverse(site, before, plan, operation))
        site.files.settle(root=before.engine.root, state_dir=site.host.state_dir, operation=operation)
        if was is not None:
            _server_back(site, before, was)
    except (OeactlError, KeyboardInterrupt) as error:
        raise _degraded(site, before, str(error) or "interrupted again") from error
    return untouched


def _files_stand(now: Survey, before: Survey, plan: Planned) -> bool:
    original = {file.path: file.before_sha256 for file in plan.files}
    return now.journal.layers == before.journal.layers and all(
        file.sha256 == original.get(file.path, file.sha256) for file in now.files
    )


def _inverse(site: Site, before: Survey, plan: Planned, operation: str) -> Transaction:
    return Transaction(
        operation=operation,
        kind="rollback",
        root=before.engine.root,
        state_dir=site.host.state_dir,
        files=tuple(
            FileWrite(
                module=file.module,
                path=file.path,
                before_sha256=file.after_sha256,
                after=file.before,
                after_sha256=file.before_sha256,
                pristine_sha256=file.pristine_sha256,
            )
            for file in plan.files
        ),
        layers=before.journal.layers,
        holder=site.holder,
        what=f"roll back {plan.recipe}",
    )


def _server_back(site: Site, before: Survey, was: ServerState) -> None:
    """Leave a server that was never touched alone; else replace it by one with the old code."""
    server = server_of(site)
    now = server.state()
    if is_running(was) and now.listener is not None and now.listener == was.listener:
        return
    take_down(site, now)
    if not is_running(was):
        return
    outcome = bring_up(site, launch_of(site.host, before.journal.layers))
    if not isinstance(outcome, Failed):
        failed = exercise(site, before.journal.layers)
        if failed is None:
            return
        outcome = failed
    raise Degraded(
        f"the server does not come up without the change either: {outcome.why}",
        where=site.host.name,
        details=outcome.tail,
    )


def _degraded(site: Site, before: Survey, why: str) -> Degraded:
    host = site.host
    commands = [f"oeactl revert --host {host.name}", f"oeactl start --host {host.name}"]
    by_hand = f"{before.host.state_dir}/RESTORE.txt"
    return Degraded(
        f"the change failed, and putting it back failed too: {why}",
        where=host.name,
        hint=commands[0],
        details=(
            "to put the host back by hand:",
            *(f"  {command}" for command in commands),
            f"  or, on the host without oeactl: the cp commands in {by_hand}",
        ),
    )
