"""The golden files of the results: one of each kind for each schema version, in ``tests/golden/vN``.

``python -m tests.support.golden`` writes those of the version that is being made. Older ones are never made
again: they are what an older oeactl wrote.
"""

from __future__ import annotations

from pathlib import Path

from oeactl.core.attachments import read_attachment
from oeactl.core.change import Change
from oeactl.core.host import Value
from oeactl.core.recording import Comparison, Recording
from oeactl.core.results import dump
from oeactl.core.run import SCHEMA_VERSION, Analysis, Attachment, Plan, Trial
from tests.core.test_attachments import BENCH, a_comparison
from tests.core.test_recording import a_recording
from tests.support.report_world import a_change
from tests.support.runs import AT, a_run

GOLDEN = Path(__file__).parent.parent / "golden"
KINDS: dict[str, type[Value]] = {
    "plan": Plan,
    "trial": Trial,
    "analysis": Analysis,
    "attachment": Attachment,
    "recording": Recording,
    "comparison": Comparison,
    "change": Change,
}
#: The version in which a kind appeared, where that was not the first.
_SINCE = {"change": 2}
#: Every (version, kind) of which there is a file.
FILES = tuple(
    (version, name)
    for version in range(1, SCHEMA_VERSION + 1)
    for name in KINDS
    if version >= _SINCE.get(name, 1)
)


def golden_values() -> dict[str, Value]:
    """What the files of this version hold."""
    run = a_run()
    assert run.analysis is not None
    return {
        "plan": run.plan,
        "trial": run.trials[0],
        "analysis": run.analysis,
        "attachment": read_attachment(BENCH.encode(), name="gsm8k.jsonl", run=run, at=AT),
        "recording": a_recording(),
        "comparison": a_comparison(),
        "change": a_change(),
    }


def golden(version: int, name: str) -> bytes:
    return (GOLDEN / f"v{version}" / f"{name}.json").read_bytes()


def main() -> None:
    folder = GOLDEN / f"v{SCHEMA_VERSION}"
    folder.mkdir(exist_ok=True)
    for name, value in golden_values().items():
        (folder / f"{name}.json").write_bytes(dump(value))


if __name__ == "__main__":
    main()
