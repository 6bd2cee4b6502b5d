"""Whether a measured level may be believed: every check of the load notes, as pass, fail or not measured.

Owns: the gates and their thresholds. Only a fail voids a point; what nobody could see is *not measured* and
says so. Refuses: to average, compare or repair a measurement.
"""

from __future__ import annotations

from oeactl.core.answers import look, sampled, shift
from oeactl.core.evidence import Evidence, Gate, failed, identity, leader, not_seen, nothing, passed
from oeactl.core.figures import drift
from oeactl.core.host import Process
from oeactl.core.load import Measurement
from oeactl.core.machine_gates import band_gate, client_gate, foreign_gate, throttling_gate

#: Mean streams in flight over those asked for. Ten requests of one length a stream, out of step with one
#: another, end in a ramp-down of half a request's time: 10 / 10.5 = 0.95 is the least an ideal client shows.
ACHIEVED_CONCURRENCY = 0.9
#: Below this many requests a stream the ramp-down alone (w / (w + 0.5)) may fall under 0.9: not judged.
_WAVES_TO_JUDGE = 5
#: Prompt tokens found in the cache. Random ids over a real vocabulary (150,000) repeat a first token, and so
#: a whole prompt, in about requests / 300,000 of the cases: 1.7 % at concurrency 512.
CACHED_PROMPT_SHARE = 0.02
_RETOKENIZED_SHARE = 0.1
_FIGURES_AGREE = 1e-6
#: Of a level's later half against its earlier one: above it the level was not steady.
_DRIFT = 0.1


def judge(evidence: Evidence) -> tuple[Gate, ...]:
    """Run every gate, always all of them and in one order; of a comparison also those that look back."""
    gates = (
        _completed(evidence),
        _errors(evidence),
        _output_lengths(evidence),
        _input_lengths(evidence),
        _ttft(evidence),
        _concurrency(evidence),
        _cached_prompt(evidence),
        _retokenized(evidence),
        _figures(evidence),
        _warm_up(evidence),
        _flush(evidence),
        _same_server(evidence),
        _alive(evidence),
        _source(evidence),
        _activation(evidence),
        _answers(evidence),
        throttling_gate(evidence),
        foreign_gate(evidence),
        client_gate(evidence),
    )
    return gates if evidence.earlier is None else (*gates, band_gate(evidence), _shift(evidence))


def failures(gates: tuple[Gate, ...]) -> tuple[str, ...]:
    """Why the point is void, one line a failed gate; empty when it is valid."""
    return tuple(f"{gate.name}: {gate.reason}" for gate in gates if gate.outcome == "fail")


def warnings(gates: tuple[Gate, ...]) -> tuple[tuple[str, str], ...]:
    """What did not void the point and should still be read: (gate, reason)."""
    return tuple((gate.name, gate.reason) for gate in gates if gate.warning and gate.outcome != "fail")


def _completed(evidence: Evidence) -> Gate:
    name, measured, planned = "completed", evidence.measurement, evidence.point.requests
    if measured is None:
        return failed(name, evidence.failure or "the driver returned no measurement")
    if evidence.point.duration_s is not None:
        planned = measured.requested
    if measured.completed == measured.requested == planned and measured.failed == 0:
        return passed(name, f"{planned} of {planned}")
    return failed(name, f"{measured.completed} of {planned} planned requests completed")


def _errors(evidence: Evidence) -> Gate:
    name, rows = "errors", evidence.requests
    if rows is None:
        return nothing(name)
    texts = [text.strip() for text in rows.errors if text.strip()]
    if not texts:
        return passed(name)
    return failed(
        name, f"{len(texts)} of {len(rows.errors)} requests carry an error, first: {_line(texts[0])}"
    )


def _output_lengths(evidence: Evidence) -> Gate:
    name, asked, rows = "output_lengths", evidence.point.output_len, evidence.requests
    if rows is None:
        return nothing(name)
    if not evidence.eos_ignored:
        seen = f"{min(rows.output_lens)} to {max(rows.output_lens)} tokens"
        return not_seen(
            name, f"this server has no ignore_eos, so answers end by themselves: {seen}", warning=True
        )
    asked_lens = rows.asked_lens or (asked,) * len(rows.output_lens)
    return _lengths(name, rows.output_lens, asked_lens, "returned", "counted by the server")


def _input_lengths(evidence: Evidence) -> Gate:
    name, asked, rows = "input_lengths", evidence.point.input_len, evidence.requests
    if rows is None:
        return nothing(name)
    if not evidence.input_exact:
        counted = f"{min(rows.input_lens)} to {max(rows.input_lens)} tokens"
        return not_seen(name, f"text prompts, of {counted} by the server's count")
    wanted = (asked,) * len(rows.input_lens)
    return _lengths(name, rows.input_lens, wanted, "were sent", "as sent, in token ids")


def _lengths(name: str, lengths: tuple[int, ...], asked: tuple[int, ...], verb: str, counted: str) -> Gate:
    wrong = [(length, wanted) for length, wanted in zip(lengths, asked, strict=True) if length != wanted]
    if not wrong:
        return passed(name, counted)
    length, wanted = wrong[0]
    return failed(name, f"{len(wrong)} of {len(lengths)} requests {verb} {length} tokens, not {wanted}")


def _ttft(evidence: Evidence) -> Gate:
    name, rows = "ttft", evidence.requests
    if rows is None:
        return nothing(name)
    never = sum(1 for seconds in rows.ttfts_s if not seconds > 0)
    if never:
        return failed(name, f"{never} of {len(rows.ttfts_s)} requests never showed a first token")
    return passed(name)


def _concurrency(evidence: Evidence) -> Gate:
    name, point = "concurrency", evidence.point
    measured = evidence.measurement
    if measured is None:
        return nothing(name)
    if measured.achieved_concurrency is None:
        return not_seen(name, "this client does not report how many were in flight")
    if point.rate is not None:
        seen = f"{measured.achieved_concurrency:.2f} in flight on average at {point.rate:g} arrivals/s"
        if measured.achieved_concurrency > ACHIEVED_CONCURRENCY * point.concurrency:
            return failed(name, f"{seen}, held back by the bound of {point.concurrency}")
        return passed(name, seen)
    seen = f"{measured.achieved_concurrency:.2f} in flight on average, {point.concurrency} asked"
    if measured.requested < _WAVES_TO_JUDGE * point.concurrency:
        return not_seen(
            name, f"{seen}; too few requests a stream to tell a slow client from the ramp-down", warning=True
        )
    if measured.achieved_concurrency < ACHIEVED_CONCURRENCY * point.concurrency:
        return failed(name, seen)
    return passed(name, seen)


def _cached_prompt(evidence: Evidence) -> Gate:
    name, measured = "cached_prompt", evidence.measurement
    if measured is None:
        return nothing(name)
    share, told = _cached_share(evidence, measured)
    if share is None:
        return not_seen(
            name, "neither this release's client nor the server's metrics tell cached prompt tokens"
        )
    seen = f"{share:.1%} of the prompt tokens came from the cache{told}"
    if evidence.dataset == "shared-prefix":
        return passed(name, f"{seen}, which this workload is about")
    if share > CACHED_PROMPT_SHARE:
        return failed(name, f"{seen}, at most {CACHED_PROMPT_SHARE:.0%} is taken")
    return passed(name, seen)


def _cached_share(evidence: Evidence, measured: Measurement) -> tuple[float | None, str]:
    """By the answers themselves, else by the server's counters meanwhile; and which of them."""
    if measured.cached_input_tokens is not None:
        return measured.cached_input_tokens / max(1, measured.input_tokens), ""
    engine = evidence.watched.engine if evidence.watched else None
    return (engine.cached_share if engine else None), ", by the server's counters"


def _retokenized(evidence: Evidence) -> Gate:
    name, measured = "retokenized", evidence.measurement
    if measured is None:
        return nothing(name)
    if measured.output_tokens_retokenized is None:
        return not_seen(name, "this client does not count the returned text again")
    if measured.output_tokens_retokenized == 0:
        return failed(name, f"no text came back for {measured.output_tokens} tokens")
    if not measured.output_tokens:
        return failed(name, "text came back and no tokens were counted")
    off = measured.output_tokens_retokenized / measured.output_tokens - 1
    seen = f"the returned text tokenizes to {off:+.0%} of the tokens counted"
    return passed(name, seen, warning=abs(off) > _RETOKENIZED_SHARE)


def _figures(evidence: Evidence) -> Gate:
    name, measured, rows = "figures", evidence.measurement, evidence.requests
    if measured is None:
        return nothing(name)
    if not measured.duration_s > 0:
        return failed(name, f"the level took {measured.duration_s} s")
    rate = measured.output_tokens / measured.duration_s
    if abs(measured.output_tokens_per_s - rate) > _FIGURES_AGREE * max(rate, 1.0):
        return failed(
            name,
            f"{measured.output_tokens} tokens in {measured.duration_s:.3f} s are not "
            f"{measured.output_tokens_per_s:.3f} tok/s",
        )
    if rows is not None and sum(rows.output_lens) != measured.output_tokens:
        return failed(
            name, f"requests add up to {sum(rows.output_lens)} tokens, not {measured.output_tokens}"
        )
    return passed(name)


def _warm_up(evidence: Evidence) -> Gate:
    name, rates = "warm_up", evidence.warm_up_rates
    if not rates:
        return not_seen(name, "there was no warm-up")
    seen = " -> ".join(f"{rate:,.0f}" for rate in rates) + " tok/s"
    rows, point = evidence.requests, evidence.point
    later = drift(rows, point.concurrency) if rows is not None and point.rate is None else None
    if evidence.warmed_up and later is not None and abs(later - 1) > _DRIFT:
        told = f"later requests took {abs(later - 1):.0%} {'less' if later < 1 else 'more'} time"
        return passed(name, f"{seen}; of those measured {told} than earlier ones", warning=True)
    if evidence.warmed_up:
        return passed(name, seen)
    return passed(name, f"still getting faster after {len(rates)} bursts: {seen}", warning=True)


def _flush(evidence: Evidence) -> Gate:
    name = "flush"
    if evidence.flushed is None:
        return not_seen(name, "the prefix cache was not asked to flush")
    if evidence.flushed:
        return passed(name, "confirmed between warm-up and measurement")
    return failed(name, "the server did not confirm that its prefix cache was flushed after the warm-up")


def _same_server(evidence: Evidence) -> Gate:
    name = "same_server"
    before, after = leader(evidence.before), leader(evidence.after)
    if before is None and after is None:
        return not_seen(name, "no process of this server could be seen")
    if before is None or after is None or identity(before) != identity(after):
        return failed(
            name, f"the server was {_called(before)} before the level and {_called(after)} after it"
        )
    gone = {identity(worker) for worker in evidence.before.workers}
    gone -= {identity(worker) for worker in evidence.after.workers}
    if gone:
        return failed(name, f"{len(gone)} of its workers are no longer the ones it had before the level")
    return passed(name, _called(after))


def _alive(evidence: Evidence) -> Gate:
    name = "alive_after"
    if evidence.token_after is None:
        return not_seen(name, evidence.token_problem or "no token was asked for after the level")
    if evidence.token_after:
        return passed(name)
    return failed(name, f"no token could be generated afterwards: {evidence.token_problem or 'no answer'}")


def _source(evidence: Evidence) -> Gate:
    name = "source"
    if not evidence.targets:
        return not_seen(name, "no file of the engine was looked at")
    for target in evidence.targets:
        if target.expected_sha256 is not None and target.after_sha256 != target.expected_sha256:
            return failed(name, f"{target.path} is not what the host's journal says")
        if target.before_sha256 != target.after_sha256:
            return failed(name, f"{target.path} changed while the level ran")
    return passed(name, f"{len(evidence.targets)} files as recorded")


def _activation(evidence: Evidence) -> Gate:
    name, seen = "activation", evidence.activations
    if seen is None:
        return not_seen(name, "the engine's files are not seen from here")
    if not seen:
        return passed(name, "no recipe on disk that would have to prove itself")
    for wanted in ("fail", "not_measured"):
        for recipe in seen:
            if recipe.outcome == wanted:
                return Gate(
                    name=name,
                    outcome=recipe.outcome,
                    reason=f"{recipe.recipe}: {recipe.reason}",
                    warning=wanted == "not_measured",
                )
    told = "; ".join(f"{recipe.recipe}: {recipe.reason}" for recipe in seen)
    if any(recipe.counts for recipe in seen):
        slow = "it counts experts (OEACTL_EXPERTS=1), so this build is faster than it was measured"
        return passed(name, f"{told}; {slow}", warning=True)
    return passed(name, told)


def _answers(evidence: Evidence) -> Gate:
    name, rows = "answers", evidence.requests
    if evidence.dataset in ("random-ids", "shared-prefix"):
        return not_seen(name, "random-id prompts: what is answered to them is not judged")
    if rows is None:
        return nothing(name)
    looked = look(sampled(rows))
    return Gate(name=name, outcome=looked.outcome, reason=looked.reason, warning=looked.warning)


def _shift(evidence: Evidence) -> Gate:
    name, rows = "answers_shift", evidence.requests
    if evidence.dataset in ("random-ids", "shared-prefix"):
        return not_seen(name, "random-id prompts: what is answered to them is not judged")
    if evidence.is_first_arm:
        return not_seen(name, "this is the arm that the others are compared with")
    if rows is None:
        return nothing(name)
    base = next((one.texts for one in reversed(evidence.earlier or ()) if one.texts), ())
    if not base:
        return not_seen(name, "the first arm has not answered this load yet, or not where it can be read")
    looked = shift(base, sampled(rows))
    return Gate(name=name, outcome=looked.outcome, reason=looked.reason, warning=looked.warning)


def _called(process: Process | None) -> str:
    return f"pid {process.pid}" if process else "gone"


def _line(text: str) -> str:
    """The last line of an error, which names it, cut short."""
    last = text.splitlines()[-1].strip()
    return last if len(last) <= 160 else f"{last[:157]}..."
