"""The results folder: saved after every level, never rewritten, and read back with suspicion."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from pathlib import Path

import msgspec
import pytest

from oeactl.core.attachments import read_attachment
from oeactl.core.results import dump
from oeactl.core.run import RawFile, Trial
from oeactl.edges.store import ResultsFolder
from oeactl.errors import OeactlError, UsageError
from tests.support.runs import AT, RUN_ID, SWEEP, a_plan, a_record, a_run, a_trial

BEGUN = a_trial(outcome="unfinished", ended_at=None, points=())


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def folder(results: Path) -> Path:
    return results / "runs" / "2026" / RUN_ID


def begun(results: Path) -> ResultsFolder:
    store = ResultsFolder(results)
    store.begin(a_plan())
    store.begin_trial(BEGUN)
    return store


def finished(results: Path, *, run: str = RUN_ID) -> ResultsFolder:
    store = ResultsFolder(results)
    store.begin(a_plan(run_id=run))
    store.begin_trial(msgspec.structs.replace(BEGUN, run_id=run))
    store.save_trial(a_trial(run_id=run))
    return store


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_plan_is_there_before_anything_is_measured(results: Path, folder: Path) -> None:
    where = ResultsFolder(results).begin(a_plan())
    assert where == str(folder)
    assert files(folder) == ["plan.json"]
    assert (folder / "plan.json").read_bytes() == dump(a_plan())


def test_every_level_is_kept_the_moment_it_ended(results: Path, folder: Path) -> None:
    store = begun(results)
    store.save_point(BEGUN, a_record(1, SWEEP.points[0]))
    assert files(folder / "trials") == ["001-A.part/01-c4.json", "001-A.part/begun.json"]


def test_a_run_that_was_killed_keeps_its_finished_levels(results: Path) -> None:
    store = begun(results)
    first = a_record(1, SWEEP.points[0])
    store.save_point(BEGUN, first)
    (trial,) = ResultsFolder(results).load("last").trials
    assert (trial.outcome, trial.points, trial.ended_at) == ("unfinished", (first,), None)
    assert trial.server == BEGUN.server


def test_the_ended_trial_is_one_file_and_its_pieces_are_gone(results: Path, folder: Path) -> None:
    store = begun(results)
    store.save_point(BEGUN, a_record(1, SWEEP.points[0]))
    store.save_trial(a_trial())
    run = a_run(path=str(folder))
    assert run.analysis is not None
    store.save_analysis(run.analysis)
    assert files(folder) == ["analysis.json", "plan.json", "trials/001-A.json"]
    assert store.load(RUN_ID) == run


def test_pieces_that_outlived_their_trial_are_not_read_twice(results: Path, folder: Path) -> None:
    store = begun(results)
    shutil.copytree(folder / "trials" / "001-A.part", folder / "kept")
    store.save_trial(a_trial())
    (folder / "kept").rename(folder / "trials" / "001-A.part")
    run = store.load(RUN_ID)
    assert [trial.outcome for trial in run.trials] == ["completed"]
    assert run.skipped == ()


def test_nothing_is_ever_rewritten(results: Path, folder: Path) -> None:
    store = finished(results)
    before = {name: (folder / name).read_bytes() for name in files(folder)}
    with pytest.raises(UsageError, match="exists already"):
        store.begin(a_plan(label="other"))
    with pytest.raises(OeactlError, match="never rewritten"):
        store.save_trial(a_trial(outcome="interrupted"))
    assert {name: (folder / name).read_bytes() for name in files(folder)} == before


def test_a_level_is_not_rewritten_either(results: Path, folder: Path) -> None:
    store = begun(results)
    store.save_point(BEGUN, a_record(1, SWEEP.points[0]))
    with pytest.raises(OeactlError, match="never rewritten"):
        store.save_point(BEGUN, a_record(1, SWEEP.points[0], tokens_per_s=9999.0))
    assert not [name for name in files(folder) if name.endswith(".tmp")]


def test_raw_rows_lie_beside_under_the_hash_of_what_they_hold(results: Path, folder: Path) -> None:
    store = begun(results)
    data = b'{"errors":["",""]}'
    raw = store.save_raw(RUN_ID, data)
    assert raw == RawFile(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
    path = folder / "raw" / f"{raw.sha256}.json.gz"
    assert gzip.decompress(path.read_bytes()) == data
    first = path.read_bytes()
    assert store.save_raw(RUN_ID, data) == raw
    assert path.read_bytes() == first


def test_runs_are_listed_oldest_first(results: Path) -> None:
    names = ["20270101T000000Z-b-00000001", "20261130T021500Z-a-00000002", "20261130T021501Z-a-00000003"]
    for name in names:
        finished(results, run=name)
    listing = ResultsFolder(results).list()
    assert [run.plan.run_id for run in listing.runs] == sorted(names)
    assert ResultsFolder(results).load("last").plan.run_id == names[0]


def broken_plans() -> dict[str, tuple[bytes, str]]:
    whole = dump(a_plan())
    return {
        "truncated": (whole[:100], "not whole JSON"),
        "empty": (b"", "not whole JSON"),
        "merge markers": (b"<<<<<<< ours\n" + whole, "not whole JSON"),
        "newer": (whole.replace(b'"schema_version": 2', b'"schema_version": 3'), "newer than this oeactl"),
        "foreign": (b'{"hello": 1}', "not a plan"),
        "of another run": (dump(a_plan(run_id="20261130T021500Z-x-00000009")), "it is the plan of"),
        "not a number": (whole.replace(b'"seed": 42', b'"seed": NaN'), "not whole JSON"),
    }


@pytest.mark.parametrize("case", list(broken_plans()))
def test_a_run_that_cannot_be_read_is_named_and_passed_over(results: Path, folder: Path, case: str) -> None:
    data, why = broken_plans()[case]
    finished(results)
    other = finished(results, run="20270101T000000Z-b-00000001")
    (folder / "plan.json").write_bytes(data)
    listing = other.list()
    assert [run.plan.run_id for run in listing.runs] == ["20270101T000000Z-b-00000001"]
    (skipped,) = listing.skipped
    assert skipped.path == str(folder / "plan.json")
    assert why in skipped.why
    with pytest.raises(UsageError, match="cannot be read"):
        other.load(RUN_ID)


def test_a_trial_that_cannot_be_read_costs_only_itself(results: Path, folder: Path) -> None:
    store = finished(results)
    trials = folder / "trials"
    (trials / "002-A.json").write_bytes((trials / "001-A.json").read_bytes()[:500])
    (trials / "003-A.json").write_bytes((trials / "001-A.json").read_bytes())
    (trials / "notes.txt").write_text("mine")
    run = store.load(RUN_ID)
    assert [trial.name for trial in run.trials] == ["001-A"]
    assert [(Path(s.path).name, s.why.partition(":")[0]) for s in run.skipped] == [
        ("002-A.json", "not whole JSON"),
        ("003-A.json", f"it is trial 001-A of {RUN_ID}"),
        ("notes.txt", "not whole JSON"),
    ]


def test_a_level_that_cannot_be_read_costs_only_itself(results: Path, folder: Path) -> None:
    store = begun(results)
    store.save_point(BEGUN, a_record(1, SWEEP.points[0]))
    store.save_point(BEGUN, a_record(2, SWEEP.points[1]))
    path = folder / "trials" / "001-A.part" / "01-c4.json"
    path.write_bytes(path.read_bytes()[:-200])
    run = store.load(RUN_ID)
    assert [point.index for point in run.trials[0].points] == [2]
    assert [Path(skipped.path).name for skipped in run.skipped] == ["01-c4.json"]


def test_stray_files_and_an_absent_folder_are_no_runs(results: Path) -> None:
    assert ResultsFolder(results).list().runs == ()
    finished(results)
    (results / "runs" / "README").write_text("x")
    (results / "runs" / "2026" / "empty").mkdir()
    listing = ResultsFolder(results).list()
    assert len(listing.runs) == 1
    assert [Path(skipped.path).parent.name for skipped in listing.skipped] == ["empty"]


@pytest.mark.parametrize("name", [RUN_ID, "1f3a9c2e", "last", "-oea-"])
def test_a_run_is_found_by_any_part_that_fits_it_alone(results: Path, name: str) -> None:
    store = finished(results)
    assert store.load(name).plan.run_id == RUN_ID


def test_a_run_is_found_by_its_folder(results: Path, folder: Path) -> None:
    finished(results)
    assert ResultsFolder(results / "elsewhere").load(str(folder)).plan.run_id == RUN_ID


@pytest.mark.parametrize(
    ("name", "says"), [("zzz", "no run is called"), ("2026", "fits 2 runs"), ("", "no run")]
)
def test_a_name_that_fits_none_or_several_is_refused_with_the_names(
    results: Path, name: str, says: str
) -> None:
    finished(results)
    store = finished(results, run="20261130T021501Z-x-00000001")
    with pytest.raises(UsageError, match=says) as refused:
        store.load(name)
    assert refused.value.details == (RUN_ID, "20261130T021501Z-x-00000001")


def test_without_runs_the_command_that_makes_one_is_named(results: Path) -> None:
    with pytest.raises(UsageError, match="no runs") as refused:
        ResultsFolder(results).load("last")
    assert refused.value.hint and "bench" in refused.value.hint


def test_a_folder_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"):
        ResultsFolder(tmp_path / "results").begin(a_plan())


def test_what_is_not_json_is_refused_before_it_has_a_name(results: Path, folder: Path) -> None:
    store = begun(results)
    wrong: Trial = a_trial(clock_offset_s=float("nan"))
    with pytest.raises(ValueError, match="JSON"):
        store.save_trial(wrong)
    assert not (folder / "trials" / "001-A.json").exists()


def test_an_analysis_may_be_made_again(results: Path) -> None:
    store = finished(results)
    analysis = a_run().analysis
    assert analysis is not None
    store.save_analysis(analysis)
    later = msgspec.structs.replace(analysis, made_at=a_trial().started_at)
    store.save_analysis(later)
    assert store.load(RUN_ID).analysis == later


def test_an_attachment_is_kept_once_and_read_back_with_its_run(results: Path, folder: Path) -> None:
    store = finished(results)
    run = store.load("last")
    data = b'{"task": "gsm8k", "accuracy": 0.9}'
    attachment = read_attachment(data, name="gsm8k.jsonl", run=run, at=AT)
    store.attach(run, attachment, data)
    assert store.load("last").attachments == (attachment,)
    assert store.load_raw(run, attachment.original.sha256) == data
    with pytest.raises(UsageError, match="attached already"):
        store.attach(run, attachment, data)
    (path,) = (folder / "attachments").iterdir()
    path.write_text("{")
    (skipped,) = store.load("last").skipped
    assert skipped.path == str(path)
