"""Evaluations by other tools: their figures as they stand in the file, or a refusal."""

from __future__ import annotations

import json

import msgspec
import pytest

from oeactl.core.attachments import read_attachment
from oeactl.core.quality import Agreement, ConditionCompared, Judged
from oeactl.core.recording import Comparison
from oeactl.core.results import dump, moment
from oeactl.core.run import Attachment, Metric
from oeactl.errors import UsageError
from oeactl.render.attachments import attachment_lines
from tests.support.runs import AT, OEA, RUN_ID, a_run

LM_EVAL = {
    "results": {
        "gsm8k": {
            "alias": "gsm8k",
            "exact_match,flexible-extract": 0.9,
            "exact_match_stderr,flexible-extract": 0.01,
            "exact_match,strict-match": 1,
            "exact_match_stderr,strict-match": "N/A",
        },
        "arc": {"acc,none": 0.5},
    },
    "n-samples": {"gsm8k": {"original": 1319, "effective": 200}},
    "configs": {},
}
PRINTED = "Accuracy: 0.912\nInvalid: 0.005\nLatency: 12.1 s\nOutput throughput: 800.0 token/s\n"
BENCH = '{"task": "gsm8k", "backend": "srt", "accuracy": 0.91, "num_requests": 200, "latency": 3.2}\n'


def read(text: str, name: str = "file.json") -> Attachment:
    return read_attachment(text.encode(), name=name, run=a_run(), at=AT)


def agreement(equal: float) -> Agreement:
    return Agreement(pairs=24, equal_answers=equal, equal_tokens=equal, first_divergence=3.0, kl=0.1)


def a_comparison() -> Comparison:
    tested = Judged(p=0.0001, floor=0.0, nearest=0.4, apart=True)
    one = ConditionCompared(
        condition="under_load",
        prompts=32,
        floor=agreement(0.99),
        itself=agreement(0.9),
        against=agreement(0.6),
        tokens=tested,
        probabilities=tested,
    )
    return Comparison(
        made_at=moment(AT),
        baseline=("one",),
        baseline_build="pristine on sglang 0.5.20",
        candidate="two",
        candidate_build="oea (k0=2) on sglang 0.5.20",
        recipes=(OEA,),
        verdict="changes answers",
        starts=2,
        restarted=True,
        least_changed=4,
        conditions=(one,),
    )


def test_lm_eval_s_figures_are_taken_with_their_errors_and_samples() -> None:
    made = read(json.dumps(LM_EVAL))
    assert made.tool == "lm-eval" and made.run_id == RUN_ID
    assert made.metrics == (
        Metric(task="arc", metric="acc", value=0.5),
        Metric(task="gsm8k", metric="exact_match,flexible-extract", value=0.9, stderr=0.01, samples=200),
        Metric(task="gsm8k", metric="exact_match,strict-match", value=1.0, samples=200),
    )


def test_sglang_s_gsm8k_is_taken_from_its_line_and_from_what_it_prints() -> None:
    assert read(BENCH).metrics == (Metric(task="gsm8k", metric="accuracy", value=0.91, samples=200),)
    assert [(one.metric, one.value) for one in read(PRINTED).metrics] == [
        ("accuracy", 0.912),
        ("invalid", 0.005),
    ]


def test_oeactl_s_own_comparison_is_taken_for_the_build_it_judged_alone() -> None:
    data = dump(a_comparison())
    made = read(data.decode())
    assert made.tool == "oeactl quality" and "changes answers" in made.said
    other = msgspec.structs.replace(a_run().trials[0], recipes=())
    pristine = msgspec.structs.replace(a_run(), trials=(other,))
    with pytest.raises(UsageError, match="another build"):
        read_attachment(data, name="x", run=pristine, at=AT)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no result|not a result"),
        ("hello", "not a result"),
        ("[1]", "not a result"),
        ("{", "not whole JSON"),
        ('{"task": "mmlu", "accuracy": 0.5}', "not a result"),
        ('{"task": "gsm8k", "accuracy": 91}', "not between 0 and 1"),
        ('{"task": "gsm8k", "accuracy": NaN}', "no figure"),
        ('{"task": "gsm8k", "accuracy": "high"}', "no figure"),
        (BENCH * 2, "2 results"),
        (PRINTED * 2, "not the output of one"),
        ('{"results": {"gsm8k": {}}}', "no figure"),
        ('{"results": {"gsm8k": 3}}', "are none"),
        ('{"results": {"gsm8k": {"acc,none": true}}}', "no figure"),
        ('{"kind": "comparison"}', "schema"),
    ],
)
def test_what_is_not_wholly_a_known_result_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read(text)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(UsageError, match="no text"):
        read_attachment(b"\xff\xfe", name="x", run=a_run(), at=AT)


def test_a_patched_run_says_what_is_known_of_its_quality() -> None:
    run = a_run()
    assert list(attachment_lines(run))[-1].startswith("quality: not measured")
    attached = (read(json.dumps(LM_EVAL), "results_1.json"), read(dump(a_comparison()).decode()))
    lines = list(attachment_lines(msgspec.structs.replace(run, attachments=attached)))
    assert "lm-eval, results_1.json: gsm8k exact_match,flexible-extract 0.9000 ± 0.0100 (n = 200)" in lines
    assert lines[-1] == (
        "quality: changes answers (against pristine on sglang 0.5.20); under load 60.0% of tokens equal "
        "(floor 99.0%)"
    )
