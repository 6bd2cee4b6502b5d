"""Whatever happens to the bytes of a results folder, it is read, told and asked without a traceback."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oeactl.core.history import history
from oeactl.core.results import analyse
from oeactl.core.tables import tables
from oeactl.edges.store import ResultsFolder
from oeactl.render.experiment import conclusion_document, verdict_lines
from oeactl.render.results import listing_document, listing_view
from tests.core.test_verdicts import a_comparison, measured
from tests.support.runs import AT, a_plan, a_trial

RUN = "20261130T021500Z-ab-00000001"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bench and a comparison, as they were written."""
    root = tmp_path_factory.mktemp("whole")
    store = ResultsFolder(root / "results")
    store.begin(a_plan())
    store.save_trial(a_trial())
    plan = msgspec.structs.replace(a_comparison(pairs=2), run_id=RUN)
    store.begin(plan)
    trials = tuple(msgspec.structs.replace(trial, run_id=RUN) for trial in measured(plan, {"B": 1.2}))
    for trial in trials:
        store.save_trial(trial)
    store.save_analysis(analyse(plan, trials, AT))
    return root


@given(data=st.data())
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_damage_is_named_or_read_and_never_raised(whole: Path, tmp_path: Path, data: st.DataObject) -> None:
    root = tmp_path / "damaged"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(whole, root)
    path = data.draw(st.sampled_from(sorted(root.rglob("*.json"))))
    body = bytearray(path.read_bytes())
    match data.draw(st.sampled_from(["cut", "flip", "digit", "swap", "insert"])):
        case "cut":
            body = body[: data.draw(st.integers(0, len(body) - 1))]
        case "flip":
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        case "digit":  # JSON still, and mostly a record still, with another figure in it
            digits = [at for at, byte in enumerate(body) if chr(byte).isdigit()]
            body[data.draw(st.sampled_from(digits))] = ord(data.draw(st.sampled_from("0123456789")))
        case "swap":
            other = data.draw(st.sampled_from(sorted(root.rglob("*.json"))))
            body = bytearray(other.read_bytes())
        case "insert":
            at = data.draw(st.integers(0, len(body)))
            body[at:at] = data.draw(
                st.sampled_from([b"<<<<<<< ours\n", b"NaN", b"1e999", b"\x00", b'"', b"{}"])
            )
    path.write_bytes(bytes(body))
    listing = ResultsFolder(root / "results").list()
    assert all("\n" not in one.why for one in listing.skipped)
    tables(listing)
    history(listing.runs, "@local")
    listing_document(listing)
    listing_view(listing, width=100)
    for run in listing.runs:
        conclusion_document(run)
        analyse(run.plan, run.trials, AT)
        for verdict in run.analysis.verdicts if run.analysis and run.plan.design else ():
            verdict_lines(verdict, run.plan)
