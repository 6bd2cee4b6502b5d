"""One burst of a level: what a driver is asked to send, and what it brings back.

Owns: the two values of ports.Driver. Refuses: to send or to judge anything.
"""

from __future__ import annotations

from typing import Literal

from oeactl.core.host import Value
from oeactl.core.load import ClientLoad, DatasetKind, Measurement, PerRequest, Point


class PointRequest(Value, frozen=True, kw_only=True):
    """One burst of a level: its warm-up, which is thrown away, or the measured one.

    url, model, tokenizer: as seen where the driver runs. deadline_s: when it is ended and counts as failed.
    served_model: the name by which requests ask for it. vocabulary: how many token ids it has, None unknown.
    round: which of the warm-up's bursts this is, from 0; each has prompts of its own.
    """

    phase: Literal["warm-up", "measured"]
    point: Point
    url: str
    model: str
    tokenizer: str
    deadline_s: float
    dataset: DatasetKind = "random-ids"
    served_model: str = ""
    vocabulary: int | None = None
    round: int = 0

    @property
    def requests(self) -> int:
        wanted = self.point.requests if self.phase == "measured" else self.point.warmup_requests
        assert wanted is not None  # of an imported level, which nobody sends
        return wanted

    @property
    def seed(self) -> int:
        if self.phase == "measured":
            return self.point.seed or 0
        return ((self.point.warmup_seed or 0) + self.round) % (1 << 31)


class PointMeasured(Value, frozen=True, kw_only=True):
    """What a driver brings back. failure: one line, when there is no measurement; tail: its last lines then.

    argv: the driver's own, without interpreter and secrets. client: how it fared itself, where it tells.
    workload_sha256: of the prompts sent, where it knows them. eos_ignored: whether answers could not end
    early; input_exact: whether the prompts have the length asked in tokens.
    """

    argv: tuple[str, ...]
    measurement: Measurement | None = None
    requests: PerRequest | None = None
    failure: str | None = None
    tail: tuple[str, ...] = ()
    client: ClientLoad | None = None
    workload_sha256: str | None = None
    eos_ignored: bool = True
    input_exact: bool = True
