"""What earlier trials of a run showed of the load that is measured now.

Owns: which levels those are, and whose answers are read. Refuses: to fail where the raw rows are gone.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oeactl.core.answers import sampled
from oeactl.core.evidence import Earlier
from oeactl.core.load import PerRequest, Point
from oeactl.core.results import same_level
from oeactl.core.run import PointRecord, Trial
from oeactl.errors import OeactlError
from oeactl.ports import Store


def earlier(
    store: Store, trial: Trial, before: tuple[Trial, ...], first_arm: str, point: Point
) -> tuple[Earlier, ...]:
    """The valid levels like ``point``, oldest first; of starts that only warmed up the texts alone."""
    found = []
    for other in before:
        for kept in other.points:
            if not kept.valid or not same_level(kept.point, point):
                continue
            reads = other.arm == first_arm != trial.arm
            found.append(
                Earlier(
                    same_arm=other.arm == trial.arm,
                    watched=kept.watched if other.pair is not None else None,
                    texts=_texts(store, other, kept) if reads else (),
                )
            )
    return tuple(found)


def looking_back(
    store: Store, trial: Trial, before: tuple[Trial, ...] | None, first_arm: str, point: Point
) -> dict[str, Any]:
    """What the evidence of a level has of them. before: None for a lone trial, which has none."""
    if before is None:
        return {}
    found = earlier(store, trial, before, first_arm, point)
    return {"earlier": found, "is_first_arm": trial.arm == first_arm}


def _texts(store: Store, trial: Trial, kept: PointRecord) -> tuple[str, ...]:
    if kept.raw is None:
        return ()
    try:
        data = store.load_raw(store.load(trial.run_id), kept.raw.sha256)
        return sampled(msgspec.json.decode(data, type=PerRequest))
    except (OeactlError, msgspec.MsgspecError):
        return ()
