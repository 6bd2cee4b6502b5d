"""quality: planted noise is never a change, planted wrong answers always are; what runs is what was asked."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from oeactl.agent import http
from oeactl.core.host import Pending, Survey, SurveyRequest
from oeactl.core.prompts import PROMPTS
from oeactl.core.quality import Answer
from oeactl.core.recording import Comparison, Recording
from oeactl.core.results import parse
from oeactl.edges.clock import SystemClock
from oeactl.edges.engines.openai import OpenAIEngine
from oeactl.edges.recordings import RecordingsFolder
from oeactl.errors import Degraded, Locked, OeactlError, Unreachable, UsageError, VoidMeasurement
from oeactl.flows.quality import Wanted, against, record_host, record_url, settings
from oeactl.flows.site import Site
from tests.support.answering_server import Script, answering
from tests.support.bench_world import LAYER, PROOF, Bench, FakeEngine, FakeFiles, Told
from tests.support.levels import DOWN, LEADER, UP


class AgentHere:
    """The agent's HTTP without a process of its own."""

    name = "here"

    def ask(self, op: str, /, *, timeout_s: float = 120.0, **fields: Any) -> Any:
        assert op == "http"
        answers = http.many(cast(Any, fields), cast(Any, None))
        return json.loads(json.dumps(answers))

    def watch(self, op: str, /, **fields: Any) -> AbstractContextManager[Iterator[Mapping[str, Any]]]:
        raise AssertionError

    def close(self) -> None: ...


def wanted(prompts: int = 8, **changes: int) -> Wanted:
    texts = PROMPTS[:prompts]
    asked = {"output_len": 8, "top_logprobs": 5, "passes": 3, "concurrency": 4, **changes}
    wanted.count += 1  # type: ignore[attr-defined]
    return Wanted(
        prompts=texts,
        settings=settings(texts, **asked),
        token=f"{wanted.count:08x}",  # type: ignore[attr-defined]
        oeactl_version="0.1.0",
    )


wanted.count = 0  # type: ignore[attr-defined]


@dataclass(kw_only=True)
class Recorder:
    """A scripted server, and recordings of it."""

    server: Script
    folder: Path

    @property
    def store(self) -> RecordingsFolder:
        return RecordingsFolder(self.folder)

    def record(self, manner: str = "exact", how: Wanted | None = None) -> Recording:
        self.server.manner = manner
        engine = OpenAIEngine(AgentHere(), url=self.server.url)
        url = self.server.url
        return record_url(
            engine, url, self.store, how or wanted(), clock=SystemClock(), progress=Told()
        ).recording

    def compare(self, *recordings: Recording) -> Comparison:
        *baseline, candidate = recordings
        return against(self.store, tuple(baseline), candidate, SystemClock())[0]


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with answering() as server:
        yield Recorder(server=server, folder=tmp_path)


@pytest.mark.parametrize("form", ["completions", "chat"])
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("exact", "exact", "within the floor"),
        ("noisy", "noisy", "within the floor"),
        ("exact", "wrong", "changes answers"),
        ("noisy", "wrong", "changes answers"),
    ],
)
def test_planted_noise_is_no_change_and_planted_wrong_answers_are(
    recorder: Recorder, before: str, after: str, said: str, form: str
) -> None:
    recorder.server.form = form
    made = recorder.compare(recorder.record(before), recorder.record(after))
    assert made.verdict == said
    assert [one.condition for one in made.conditions] == ["alone", "under_load"]


def test_one_at_a_time_and_many_at_once_are_what_they_say(recorder: Recorder) -> None:
    recorder.server.takes_s = 0.02
    made = recorder.record()
    assert 2 <= recorder.server.most_at_once <= 4
    assert len(recorder.server.asked) == 8 * 3 * 2
    assert made.model.served_name == "scripted"
    assert [floor.agreement.equal_answers for floor in made.floors] == [1.0, 1.0]


def test_a_second_recording_of_the_first_build_widens_the_floor(recorder: Recorder) -> None:
    one, two, three = recorder.record(), recorder.record(), recorder.record()
    made = recorder.compare(one, two, three)
    assert made.baseline == (one.recording_id, two.recording_id)
    assert made.conditions[0].floor.pairs == 8 * 15
    recorder.compare(one, two, three)  # once more: what is kept is not rewritten


def test_the_comparison_lies_beside_its_candidate_and_the_answers_where_git_does_not_look(
    recorder: Recorder,
) -> None:
    made = recorder.compare(recorder.record(), recorder.record("wrong"))
    (file,) = recorder.folder.rglob("against-*.json")
    assert file.parent.name == made.candidate
    assert parse(file.read_bytes(), Comparison) == made
    assert all("raw" in path.parts for path in recorder.folder.rglob("*.gz"))


@pytest.mark.parametrize("form", ["completions", "chat"])
def test_a_server_that_refuses_fields_it_does_not_know_is_asked_without(
    recorder: Recorder, form: str
) -> None:
    recorder.server.strict, recorder.server.form = True, form
    assert recorder.record().api == "openai"


def test_without_log_probabilities_there_is_nothing_to_compare(recorder: Recorder) -> None:
    recorder.server.form = "silent"
    with pytest.raises(UsageError, match="no log-probabilities"):
        recorder.record()
    assert not list(recorder.folder.rglob("recording.json"))


def test_one_failed_answer_voids_the_recording(recorder: Recorder) -> None:
    recorder.server.fails = True
    with pytest.raises(VoidMeasurement, match="HTTP 500"):
        recorder.record()
    assert not list(recorder.folder.rglob("recording.json"))


def test_what_was_asked_otherwise_is_not_compared(recorder: Recorder) -> None:
    one, two = recorder.record(), recorder.record(how=wanted(output_len=9))
    with pytest.raises(UsageError, match="not asked alike"):
        recorder.compare(one, two)
    with pytest.raises(UsageError, match="against itself"):
        recorder.compare(one, one)


def test_another_model_is_not_compared(recorder: Recorder) -> None:
    one, two = recorder.record(), recorder.record()
    other = msgspec.structs.replace(two, model=msgspec.structs.replace(two.model, served_name="else"))
    with pytest.raises(UsageError, match="two models"):
        recorder.compare(one, other)


def test_answers_that_are_gone_or_changed_are_said_so(recorder: Recorder) -> None:
    one, two = recorder.record(), recorder.record("wrong")
    raws = list(recorder.folder.rglob("*.gz"))
    for raw in raws:
        raw.write_bytes(gzip.compress(b"[]"))
    with pytest.raises(UsageError, match="not what was recorded"):
        recorder.compare(one, two)
    for raw in raws:
        raw.unlink()
    with pytest.raises(UsageError, match="are not here"):
        recorder.compare(one, two)


def test_a_recording_is_found_by_any_part_that_fits_it_alone(recorder: Recorder) -> None:
    one, two = recorder.record(), recorder.record()
    assert recorder.store.load_recording("last") == two
    assert recorder.store.load_recording(one.recording_id[-8:]) == one
    with pytest.raises(UsageError, match="fits 2 recordings"):
        recorder.store.load_recording("url")
    with pytest.raises(UsageError, match="no recording is called"):
        recorder.store.load_recording("nothing")


class Files(FakeFiles):
    """A host whose lease is held by ``quality``."""

    def survey(self, request: SurveyRequest) -> Survey:
        return super().survey(msgspec.structs.replace(request, modules=("sglang.srt.layers.moe.topk",)))

    def lease(self, **asked: Any) -> None:
        assert asked["what"] == "quality"
        super().lease(**{**asked, "what": "bench"})


class Answering(FakeEngine):
    """Ten tokens a prompt; something may happen at each request."""

    happens: Callable[[], None] = staticmethod(lambda: None)
    changed = False

    def answers(
        self, *, prompts: Sequence[str], output_len: int, top_logprobs: int, concurrency: int
    ) -> tuple[Answer, ...]:
        type(self).happens()
        tokens = tuple(str(at + 50 * self.changed) for at in range(10))
        return (Answer(tokens=tokens, top=tuple({token: log(0.5)} for token in tokens)),) * len(prompts)


@dataclass(kw_only=True)
class OnHost:
    """A host of the bench's world, with a server that answers."""

    bench: Bench
    store: RecordingsFolder
    engine: type[Answering]

    def record(self) -> Recording:
        site: Site = self.bench.site()
        world = self.bench.world
        site = replace(site, files=Files(world), engine=self.engine(world))
        return record_host(site, self.store, wanted(16)).recording


def on_host(folder: Path, *, patched: bool = False) -> OnHost:
    engine = cast("type[Answering]", type("Engine", (Answering,), {}))
    return OnHost(bench=Bench(folder, patched=patched), store=RecordingsFolder(folder), engine=engine)


def test_a_recording_of_a_host_says_which_build_answered_and_holds_its_lease(tmp_path: Path) -> None:
    host = on_host(tmp_path, patched=True)
    made = host.record()
    assert made.label == "oea" and made.recipes[0].digest == LAYER.digest
    assert (made.pid, made.start_ticks) == (LEADER.pid, LEADER.start_ticks)
    assert made.build == "oea (k0=2, min_tokens=2) on sglang 0.5.20"
    assert made.activations[0].outcome == "pass"
    asked = host.bench.world.asked
    assert asked.index("lease") < asked.index("flush") < asked.index("settle")
    assert asked.count("flush") == 6
    assert host.store.load_recording("last") == made


def test_a_change_after_a_restart_is_told_with_two_starts_of_the_first_build(tmp_path: Path) -> None:
    """One start cannot tell a change from what a restart does; two, which agree, can."""
    host = on_host(tmp_path)
    recordings = []
    for pid, changed in ((1, False), (2, False), (3, True)):
        process = msgspec.structs.replace(LEADER, pid=pid)
        host.bench.world.state = msgspec.structs.replace(UP, recorded=process, listener=process)
        host.engine.changed = changed
        recordings.append(host.record())
    one, two, three = recordings

    def verdict(*baseline: Recording) -> Comparison:
        return against(host.store, baseline, three, SystemClock())[0]

    assert verdict(one).verdict == "differs, or a restart does"
    both = verdict(one, two)
    assert (both.verdict, both.starts, both.restarted) == ("changes answers", 2, True)
    assert against(host.store, (one,), two, SystemClock())[0].verdict == "within the floor"


@pytest.mark.parametrize(
    ("wrong", "kind", "says"),
    [
        ("down", Unreachable, "not up"),
        ("pending", Degraded, "did not end"),
        ("locked", Locked, "at work"),
        ("replaced", VoidMeasurement, "was replaced"),
        ("repatched", VoidMeasurement, "were changed"),
        ("bypassed", VoidMeasurement, "oea did not answer"),
    ],
)
def test_what_voids_a_recording_is_said_and_nothing_is_kept(
    tmp_path: Path, wrong: str, kind: type[OeactlError], says: str
) -> None:
    host = on_host(tmp_path, patched=wrong == "bypassed")
    world = host.bench.world

    def meanwhile() -> None:
        if wrong == "replaced":
            later = msgspec.structs.replace(LEADER, pid=1)
            world.state = msgspec.structs.replace(UP, recorded=later, listener=later)
        if wrong == "repatched":
            world.journal = msgspec.structs.replace(world.journal, layers=(LAYER,))
            world.proofs = (PROOF,)

    host.engine.happens = staticmethod(meanwhile)
    if wrong == "down":
        world.state = DOWN
    if wrong == "pending":
        pending = Pending(operation="x", kind="patch", started_at="2026-11-30T00:00:00Z")
        world.journal = msgspec.structs.replace(world.journal, pending=pending)
    if wrong == "locked":
        world.taken_by = "bob"
    if wrong == "bypassed":
        world.proofs = ()
    with pytest.raises(kind, match=says):
        host.record()
    assert not list(tmp_path.rglob("recording.json"))
