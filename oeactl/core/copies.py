"""The copies of a file that a plan changes: one, or one on each node of a server over several machines.

Owns: finding them, and what is in the way of writing each. Refuses: to place an edit.
"""

from __future__ import annotations

from collections.abc import Mapping

from oeactl.core.host import Survey
from oeactl.core.reasons import Reason
from oeactl.core.standing import ABSENT, Standing, in_the_way
from oeactl.core.whole import is_path


def copies_of(standing: Standing, survey: Survey, standings: Mapping[str, Standing]) -> tuple[Standing, ...]:
    """``standing`` and, on other nodes, the files of the same name."""
    if not survey.nodes:
        return (standing,)
    return tuple(one for one in standings.values() if one.module == standing.module)


def against(copies: tuple[Standing, ...]) -> tuple[Reason, ...]:
    """What is in the way of planning on these copies of one file, and of writing them."""
    first, *others = copies
    reasons = [reason for copy in copies for reason in _against(copy)]
    if not reasons:
        reasons = [
            Reason(
                kind="guard",
                what=f"the nodes have different originals of this file: it is not that of {first.path}",
                where=copy.path,
                hint="install the same engine on every node",
            )
            for copy in others
            if copy.original_sha256 != first.original_sha256
        ]
    return tuple(reasons)


def _against(standing: Standing) -> tuple[Reason, ...]:
    state, reason = standing.file, in_the_way(standing)
    free = standing.state == "missing" and is_path(standing.module) and standing.original_sha256 == ABSENT
    if reason.kind != "nothing" and not free:  # where nothing is, a file can be put
        return (reason,)
    if state is not None and state.problem:
        return (Reason(kind="read-only", what=state.problem, where=standing.path),)
    if state is not None and not state.writable:
        what = "the file cannot be written by this user"
        hint = "set 'become: sudo', or connect as the owner"
        return (Reason(kind="read-only", what=what, where=standing.path, hint=hint),)
    return ()
