"""Several hosts: all looked at before any is touched, one question, sorted locks, failures kept apart."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from oeactl.core.host import Holder
from oeactl.core.inventory import Host
from oeactl.edges.clock import SystemClock
from oeactl.errors import Interrupted, Locked, OeactlError, Refused, UsageError, worst
from oeactl.flows.intent import Intent, Steps
from oeactl.flows.side_by_side import Ended, side_by_side
from oeactl.flows.site import Site
from oeactl.flows.together import Member, together
from oeactl.ports import Progress
from tests.support.forestalled import Forestalled
from tests.support.surveys import survey_of


class Log:
    """What happened, in order, on all hosts."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._turn = threading.Lock()

    def say(self, line: str) -> None:
        with self._turn:
            self.lines.append(line)

    def about(self, word: str) -> list[str]:
        return [line for line in self.lines if line.startswith(word)]


class FakeFiles:
    """Leases only. held: hosts that somebody else has."""

    def __init__(self, log: Log, name: str, held: bool) -> None:
        self._log, self._name, self._held = log, name, held

    def lease(self, **fields: Any) -> None:
        if self._held:
            raise Locked("bob is at work", where=self._name)
        self._log.say(f"lease {self._name}")

    def settle(self, **fields: Any) -> None:
        self._log.say(f"settle {self._name}")

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(name)


class Answering:
    """ports.Prompt that remembers what it was asked."""

    def __init__(self, answer: bool = True, pause: Callable[[], None] = lambda: None) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self._pause = pause

    def confirm(self, question: str) -> bool:
        self.asked.append(question)
        self._pause()
        return self.answer


class Silent:
    def step(self, text: str) -> None: ...
    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None: ...
    def note(self, text: str) -> None: ...
    def warn(self, text: str) -> None: ...


class World:
    """Hosts whose flow is: look, say the intent, go on, end with the host's name."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.log = Log()
        self.held: set[str] = set()
        self.asks: set[str] = set(names)
        self.boot = {name: f"boot-{name}" for name in names}
        self.look: dict[str, Callable[[], None]] = {}
        self.go: dict[str, Callable[[], None]] = {}

    def member(self, name: str) -> Member[str]:
        files: Any = FakeFiles(self.log, name, name in self.held)
        progress: Progress = Silent()
        site = Site(
            host=Host(name=name),
            files=files,
            server=None,
            engine=None,
            clock=SystemClock(),
            progress=progress,
            prompt=Answering(False),
            holder=Holder(user="ann", host="laptop", pid=1),
        )
        return Member(
            name=name,
            begin=lambda: (site, self._flow(name)),
            close=lambda: self.log.say(f"close {name}"),
        )

    def _flow(self, name: str) -> Steps[str]:
        self.log.say(f"look {name}")
        self.look.get(name, lambda: None)()
        survey = survey_of({})
        survey = msgspec.structs.replace(
            survey, host=msgspec.structs.replace(survey.host, boot_id=self.boot[name])
        )
        question = f"Stop {name}?" if name in self.asks else None
        yield Intent(survey=survey, operation="op", what="patch", question=question, lasting=True)
        self.log.say(f"go {name}")
        self.go.get(name, lambda: None)()
        return name

    def run(self, prompt: Answering | None = None, *, fail_fast: bool = False) -> dict[str, Any]:
        """Host -> its value, the class of its error, or None."""
        ended = together(
            [self.member(name) for name in self.names],
            prompt=prompt or Answering(),
            decided=self._decided,
            fail_fast=fail_fast,
        )
        return {name: _short(how) for name, how in zip(self.names, ended, strict=True)}

    def _decided(self, intents: Mapping[str, Intent]) -> None:
        self.log.say(f"decided {','.join(intents)}")


def _short(how: Ended[str] | None) -> Any:
    return how and (how.value if how.error is None else type(how.error))


def fail(error: OeactlError) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def test_all_are_looked_at_then_asked_once_then_locked_in_sorted_order_then_changed() -> None:
    world = World("c", "a", "b")
    prompt = Answering()
    assert world.run(prompt) == {"c": "c", "a": "a", "b": "b"}
    kinds = [line.split()[0] for line in world.log.lines]
    assert kinds == ["look"] * 3 + ["decided"] + ["lease"] * 3 + ["go"] * 3 + ["close"] * 3
    assert world.log.about("lease") == ["lease a", "lease b", "lease c"]
    assert prompt.asked == ["Stop a?\nStop b?\nStop c?\nAll 3?"]


def test_one_question_is_asked_as_it_is_and_none_where_there_is_none() -> None:
    world = World("a", "b")
    world.asks = {"b"}
    prompt = Answering()
    world.run(prompt)
    assert prompt.asked == ["Stop b?"]
    world.asks = set()
    silent = Answering()
    world.run(silent)
    assert silent.asked == []


def test_a_no_changes_nothing_on_any_host() -> None:
    world = World("a", "b")
    with pytest.raises(Interrupted):
        world.run(Answering(False))
    assert not world.log.about("go")
    assert not world.log.about("lease")
    assert len(world.log.about("close")) == 2


def test_one_host_that_fails_does_not_stop_the_others() -> None:
    world = World("a", "b", "c")
    world.look["a"] = fail(Refused("no anchor"))
    world.go["b"] = fail(Refused("read-only"))
    assert world.run() == {"a": Refused, "b": Refused, "c": "c"}
    assert world.log.about("settle") == ["settle b"], "no lease outlives a flow that refused"


def test_fail_fast_while_looking_touches_no_host() -> None:
    world = World("a", "b", "c")
    world.look["b"] = fail(Refused("no anchor"))
    assert world.run(fail_fast=True) == {"a": None, "b": Refused, "c": None}
    assert not world.log.about("lease")


def test_a_host_that_is_locked_fails_alone_or_stops_all() -> None:
    world = World("a", "b", "c")
    world.held = {"b"}
    assert world.run() == {"a": "a", "b": Locked, "c": "c"}
    other = World("a", "b", "c")
    other.held = {"b"}
    assert other.run(fail_fast=True) == {"a": None, "b": Locked, "c": None}
    assert other.log.about("settle") == ["settle a"]
    assert not other.log.about("go")


def test_one_engine_under_two_names_is_refused_before_anything_is_asked() -> None:
    world = World("a", "b")
    world.boot["b"] = world.boot["a"]
    prompt = Answering()
    with pytest.raises(UsageError) as caught:
        world.run(prompt)
    assert "a and b" in caught.value.what
    assert prompt.asked == []


def test_a_bug_on_one_host_stays_there() -> None:
    world = World("a", "b")
    world.go["a"] = lambda: {}["x"]
    assert world.run() == {"a": KeyError, "b": "b"}


def test_ctrl_c_reaches_every_flow_under_way() -> None:
    world = World("a", "b")
    ready = threading.Barrier(3)
    ended: list[str] = []

    def wait(name: str) -> Callable[[], None]:
        def work() -> None:
            try:
                ready.wait(60)
                while True:
                    time.sleep(0.01)
            except KeyboardInterrupt:
                ended.append(name)
                raise Interrupted("rolled back") from None

        return work

    world.go = {name: wait(name) for name in world.names}

    def press() -> None:
        ready.wait(60)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    assert world.run() == {"a": Interrupted, "b": Interrupted}
    thread.join()
    assert sorted(ended) == ["a", "b"]


def test_ctrl_c_while_looking_changes_nothing() -> None:
    world = World("a")

    def wait() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            time.sleep(0.01)

    world.look["a"] = wait
    with pytest.raises(Interrupted):
        world.run()
    assert world.log.lines == ["look a", "close a"]


def test_a_ctrl_c_before_any_look_began_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("a", "b")
    Forestalled().set(monkeypatch)
    with pytest.raises(Interrupted):
        world.run()
    assert world.log.lines == []


def test_a_ctrl_c_before_any_host_went_on_is_told_and_every_lease_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World("a", "b")
    pressed = Answering(pause=lambda: Forestalled().set(monkeypatch))
    assert world.run(pressed) == {"a": KeyboardInterrupt, "b": KeyboardInterrupt}
    assert [line for line in world.log.lines if line.startswith(("go", "settle"))] == ["settle a", "settle b"]


# --- side by side ------------------------------------------------------------------------------------------


def test_no_more_than_so_many_at_once_and_the_results_in_their_order() -> None:
    now, most = 0, 0
    turn, three = threading.Lock(), threading.Barrier(3)

    def work(number: int) -> int:
        nonlocal now, most
        with turn:
            now += 1
            most = max(most, now)
        three.wait(60)
        time.sleep(0.02)
        with turn:
            now -= 1
        return number

    works = [lambda number=number: work(number) for number in range(9)]  # type: ignore[misc]
    ended = side_by_side(works, at_once=3)
    assert [how and how.value for how in ended] == list(range(9))
    assert most == 3


def test_what_has_not_begun_is_not_begun_after_a_failure_where_that_is_wished() -> None:
    def work(number: int) -> int:
        if number == 1:
            raise Refused("no")
        return number

    works = [lambda number=number: work(number) for number in range(4)]  # type: ignore[misc]
    ended = side_by_side(works, at_once=1, fail_fast=True)
    assert [_kind(how) for how in ended] == [int, Refused, None, None]
    assert side_by_side([]) == ()


def _kind(how: Ended[int] | None) -> type | None:
    return how and type(how.error or how.value)


def test_the_worst_exit_code_is_the_one_that_leaves_most_to_be_done() -> None:
    assert worst([]) == worst([0, 0]) == 0
    assert worst([0, 3, 4]) == 4
    assert worst([6, 7, 130]) == 7
    assert worst([6, 130]) == 130
    assert worst([7, 1]) == 1
