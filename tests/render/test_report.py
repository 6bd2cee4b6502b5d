"""Reports for others: all that was measured is in them, nothing else is, and a ratio never stands alone."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from html import unescape
from itertools import pairwise

import msgspec
import pytest

from oeactl.cli.experiment import _combinations
from oeactl.core.again import again
from oeactl.core.load import Cell, make_sweep
from oeactl.core.matrix import by_context
from oeactl.core.provenance import EngineRecord
from oeactl.core.results import analyse
from oeactl.core.routing import ExpertsSeen, unseen
from oeactl.core.run import AppliedRecipe, Arm, ImportedFile, Run, Sending, Trial
from oeactl.errors import Refused
from oeactl.render.figures import ratio_figure
from oeactl.render.page import html_report
from oeactl.render.report import pr_report
from oeactl.render.wiki import wiki_page
from tests.core.test_verdicts import a_comparison, measured
from tests.support.report_world import DIFF, a_change, a_rich_bench, a_rich_comparison
from tests.support.runs import AT, OEA, a_plan, a_record, a_run, a_trial

RICH = a_rich_comparison()


def words(run: Run) -> list[str]:
    found = again(run)
    assert found is not None
    return list(found)


def text_of(page: str) -> str:
    return re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL))


def test_the_page_is_whole_and_asks_for_nothing() -> None:
    page = html_report(RICH)
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert not re.search(r"<(script|link|img|iframe|object|embed|base|form)\b", page)
    assert not re.search(r"\b(src|srcset|data|action|poster|background)=", page)
    assert "url(" not in page and "@import" not in page
    assert "default-src 'none'" in unescape(page)


def test_what_comes_from_logs_and_files_is_text_and_never_markup() -> None:
    page = html_report(RICH)
    assert "<script" not in page and '&lt;script&gt;alert("not run")' in page
    assert "CUDA out of memory &lt;tried 2 GiB&gt;" in page
    for drawing in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL):
        ElementTree.fromstring(drawing)  # well formed


def test_the_ratio_with_interval_and_margin_comes_first_and_says_which_levels_it_is_of() -> None:
    page = html_report(RICH)
    titles = re.findall(r'<h2 id="([a-z]+)"', page)
    assert titles[0] == "ratio" and titles[-1] == "again"
    assert {"throughput", "order", "tradeoff", "experts", "gates", "plan", "change", "ground"} <= set(titles)
    text = text_of(page)
    assert "levels 64, 256" in text and "all levels" not in text  # one trial was lost at the others
    assert "B is faster than A, by more than the margin of 3%" in text
    assert 'class="margin"' in page


def test_an_interval_without_measure_does_not_squeeze_the_others_and_ends_in_an_arrow() -> None:
    run = a_rich_comparison(pairs=2, failing=False)
    assert run.analysis is not None
    (verdict,) = run.analysis.verdicts
    assert verdict.effect is not None
    tame, wild = (
        msgspec.structs.replace(
            run,
            analysis=msgspec.structs.replace(
                run.analysis, verdicts=(msgspec.structs.replace(verdict, effect=effect),)
            ),
        )
        for effect in (verdict.effect, msgspec.structs.replace(verdict.effect, low=0.001, high=250.0))
    )
    drawn = [str(ratio_figure(one, 820)) for one in (tame, wild)]
    ticks = [re.findall(r">([0-9.]+)</text>", one) for one in drawn]
    assert "250" in drawn[1] and max(float(tick) for tick in ticks[1]) < 3
    xs = [float(x) for x in re.findall(r'x[12]="([0-9.-]+)"', drawn[1])]
    assert min(xs) >= 0 and max(xs) <= 820 - 190


def test_a_change_of_what_is_computed_is_said_before_any_figure() -> None:
    page = html_report(RICH)
    assert page.index("oea changes what the model computes") < page.index('<h2 id="ratio"')
    calm = a_change(
        recipes=tuple(msgspec.structs.replace(one, computes="same") for one in a_change().recipes)
    )
    for changes, said in (
        ((calm,), "leaves what the model computes as it is"),
        ((), "what it changes is not known here"),
    ):
        run = msgspec.structs.replace(RICH, changes=changes)
        for report in (html_report(run), pr_report(run), wiki_page([run])):
            assert said in report


def test_every_restart_has_its_mark_and_every_figure_its_numbers() -> None:
    page = html_report(RICH)
    wide = page.split('<h2 id="throughput"')[1].split('class="narrow"')[0]
    marks = re.findall(r"<title>(\d{3}-[AB]): [\d,.]+ tok/s</title>", wide)
    assert len(marks) == 12 * 6 - 4
    assert page.count("<figure>") == page.count("<summary>The numbers</summary>") == 5


@pytest.mark.parametrize("run", [RICH, a_rich_comparison(4), a_rich_bench(), a_run()])
def test_a_page_is_made_of_any_run(run: Run) -> None:
    page = html_report(run)
    assert run.plan.run_id in page and "nan" not in text_of(page).lower().split()


def test_a_run_before_its_first_trial_is_told_as_such() -> None:
    empty = msgspec.structs.replace(RICH, trials=(), analysis=None, attachments=(), changes=())
    page = html_report(empty)
    assert "No verdict yet" in page and "<figure>" not in page and "not taken: 000-A" in text_of(page)


def test_a_matrix_has_a_line_a_context_a_row_a_cell_and_names_what_did_not_fit() -> None:
    sweep = by_context(make_sweep((4, 16), output_len=32), (64, 4096))
    cell = Cell(
        concurrency=64,
        input_len=4096,
        output_len=32,
        limit="the KV cache",
        needed_tokens=9,
        available_tokens=8,
    )
    plan = a_plan(sweep=msgspec.structs.replace(sweep, skipped=(cell,)))
    points = tuple(a_record(at, point, tokens_per_s=100.0 * at) for at, point in enumerate(sweep.points, 1))
    run = Run(path="", plan=plan, trials=(a_trial(points=points),))
    page = html_report(run)
    wide = page.split('<h2 id="throughput"')[1].split('class="narrow"')[0]
    assert re.findall(r"</svg>(context \d+)</span>", wide) == ["context 64", "context 4096"]
    assert len(re.findall(r"<title>001-A: [\d,.]+ tok/s</title>", wide)) == 4
    assert "16 at 4096" in page and "left out: context 4096 at 64" in page
    assert "--context 64,4096 --concurrency 4,16,64 --output-len 32" in shlex.join(words(run))
    rows = [line for line in wiki_page([run]).splitlines() if line.startswith(("| 64/32", "| 4096/32"))]
    assert rows[:2] == ["| 64/32 | 100.0 | 200.0 |", "| 4096/32 | 300.0 | 400.0 |"]


def test_a_bench_is_told_without_a_verdict() -> None:
    text = text_of(html_report(a_rich_bench()))
    assert "not a comparison" in text and "faster" not in text
    assert "if uniform" in text


def test_what_another_tool_measured_is_told_as_such() -> None:
    run = a_run()
    trial = run.trials[0]
    engine = msgspec.structs.replace(trial.engine, root=None)
    plan = msgspec.structs.replace(
        run.plan,
        what="import",
        sweep=msgspec.structs.replace(run.plan.sweep, seed=None),
        arms=(Arm(name="A"),),
        imported=(ImportedFile(name="vllm.json", sha256="ab" * 32, bytes=9),),
    )
    trials = (msgspec.structs.replace(trial, engine=engine, recipes=()),)
    imported = msgspec.structs.replace(run, plan=plan, trials=trials)
    page, wiki = text_of(html_report(imported)), wiki_page([imported])
    for text in (page, wiki):
        assert "pristine" not in text and "imported vllm.json (sha256 abababababab" in text
    assert "Figures that another tool measured" in page and "nobody saw its files" in page
    assert again(imported) is None and "None" not in page


def test_a_pull_request_gets_what_reviewers_ask_in_their_order() -> None:
    text = pr_report(RICH)
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == [
        "## ab-oea: B improved",
        "### Modifications",
        "### Accuracy Tests",
        "### Speed Tests and Profiling",
        "### Commands",
        "### Measured on",
        "### Not measured",
    ]
    assert DIFF.rstrip("\n") in text
    assert "| lm-eval | gsm8k | exact_match,strict-match | 0.9211 | 0.0074 | 1319 |" in text
    assert "| revision | unpinned |" in text
    assert "-m sglang.launch_server --model-path zai-org/GLM-4.5-Air --tp 8" in text
    assert shlex.join(words(RICH)) in text
    assert len(text) < 65536
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")


def test_distinct_experts_stand_in_every_report_or_why_they_were_not_seen() -> None:
    seen = {
        arm: ExpertsSeen(outcome="measured", requests=64, top_k=8, experts=128, distinct_mean=distinct)
        for arm, distinct in (("A", 42.1), ("B", 13.7))
    }
    run = having_seen(seen)
    assert "| 64 | 42.1 | 13.7 | 125.9 |" in pr_report(run)
    assert re.search(r"64\s+42\.1\s+13\.7\s+125\.9", text_of(html_report(run)))
    experts = wiki_page([run]).partition("### Distinct experts")[2].partition("###")[0]
    assert "| 512/256 | 42.1 |" in experts and "| 512/256 | 13.7 |" in experts
    blind = having_seen(dict.fromkeys("AB", unseen(64, "the server does not tell")))
    assert "Distinct experts were not measured: the server does not tell." in pr_report(blind)
    assert "the server does not tell" in text_of(html_report(blind))
    for report in (pr_report(RICH), wiki_page([RICH, blind])):
        assert "istinct experts" not in report


def having_seen(experts: Mapping[str, ExpertsSeen]) -> Run:
    """The rich comparison, had it looked at every level."""

    def looked(trial: Trial) -> Trial:
        seen = experts[trial.arm]
        points = tuple(msgspec.structs.replace(point, experts=seen) for point in trial.points)
        return msgspec.structs.replace(trial, points=points)

    return msgspec.structs.replace(RICH, trials=tuple(map(looked, RICH.trials)))


def test_a_difference_that_a_pull_request_cannot_hold_is_named_instead() -> None:
    run = msgspec.structs.replace(RICH, changes=(a_change(diff="+x\n" * 40_000),))
    text = pr_report(run)
    assert "too long for here: `changes/B.json`" in text and len(text) < 65536


def test_a_fence_in_a_difference_does_not_end_its_block() -> None:
    run = msgspec.structs.replace(RICH, changes=(a_change(diff="+```\n+# not a heading\n"),))
    block = pr_report(run).split("<details>")[1].split("</details>")[0]
    assert "````diff\n+```\n+# not a heading\n````" in block


def test_a_wiki_page_is_context_by_concurrency_for_every_build() -> None:
    text = wiki_page([RICH, with_context(RICH, 4096)])
    assert "### pristine" in text and "### oea (k0=4)" in text
    heads = [line for line in text.splitlines() if line.startswith("| tokens in/out")]
    assert heads[0] == "| tokens in/out | 1 | 4 | 16 | 64 | 128 | 256 |"
    rows = [line for line in text.splitlines() if line.startswith("| 4096/256")]
    assert len(rows) == 5 and "oea (k0=4) over pristine" in text


def with_context(run: Run, length: int) -> Run:
    def longer(value: object) -> object:
        if isinstance(value, dict):
            return {key: length if key == "input_len" else longer(item) for key, item in value.items()}
        return [longer(item) for item in value] if isinstance(value, list | tuple) else value

    return msgspec.convert(longer(msgspec.to_builtins(run)), Run)


def test_runs_of_other_models_are_not_put_into_one_matrix() -> None:
    trials = tuple(
        msgspec.structs.replace(t, model=msgspec.structs.replace(t.model, path="other")) for t in RICH.trials
    )
    with pytest.raises(Refused, match="the model"):
        wiki_page([RICH, msgspec.structs.replace(RICH, trials=trials)])


def test_the_command_of_a_comparison_names_all_that_was_chosen() -> None:
    plan = msgspec.structs.replace(
        a_comparison(analysis="regression", leave="patched"),
        arms=(Arm(name="A"), Arm(name="B", recipes=(OEA,))),
        label="ab-oea",
    )
    found = shlex.join(words(Run(path="", plan=plan, trials=())))
    assert found.startswith("oeactl ab --host @local --recipe oea --set k0=2 --set min_tokens=2 --pairs 4")
    assert "--seed 5 --margin 0.03 --analysis regression --leave patched --no-warm" in found
    assert "--concurrency 4,16 --input-len 64 --output-len 32 --driver sglang" in found


def test_the_command_of_a_bench_names_its_levels_prompts_and_client() -> None:
    run = a_run()
    assert shlex.join(words(run)) == (
        "oeactl bench --host @local --concurrency 4,16 --input-len 64 --output-len 32 "
        "--driver sglang --seed 42"
    )
    plan = msgspec.structs.replace(
        run.plan, driver="light", sending=Sending(api="chat", experts=True, url="http://127.0.0.1:1")
    )
    engine = EngineRecord(
        package="vllm",
        root=None,
        version=None,
        python_version=None,
        editable=False,
        git_commit=None,
        git_dirty_sha256=None,
    )
    trials = (msgspec.structs.replace(run.trials[0], engine=engine),)
    found = shlex.join(words(msgspec.structs.replace(run, plan=plan, trials=trials)))
    assert "bench --url http://127.0.0.1:1 " in found and "--host" not in found
    assert "--api chat --dataset random-ids --seed 42 --experts" in found


@pytest.mark.parametrize("pristine", [False, True])
def test_the_command_of_a_scan_makes_the_same_arms_in_the_same_order(pristine: bool) -> None:
    given = (("--set", ["k0=2,4", "min_tokens=2"]), ("--arg", ["mem=a,b"]), ("--env", ["X=1,0"]))
    arms = [Arm(name="A")] if pristine else []
    for chosen in _combinations(*given):
        recipe = AppliedRecipe(recipe="oea", revision=1, parameters=dict(chosen["--set"]), digest="d")
        args = tuple(word for key, text in chosen["--arg"].items() for word in (f"--{key}", text))
        arms.append(Arm(name=f"{len(arms)}", recipes=(recipe,), args=args, env=chosen["--env"]))
    plan = msgspec.structs.replace(a_comparison(), what="scan", arms=tuple(arms))
    found = words(Run(path="", plan=plan, trials=()))
    assert ("--pristine" in found) == pristine
    options = [(kind, [b for a, b in pairwise(found) if a == kind]) for kind, _ in given]
    again_arms = [(chosen["--set"], chosen["--arg"], chosen["--env"]) for chosen in _combinations(*options)]
    assert again_arms == [
        (chosen["--set"], chosen["--arg"], chosen["--env"]) for chosen in _combinations(*given)
    ]


def test_arms_that_no_one_command_makes_are_not_given_one() -> None:
    plan = msgspec.structs.replace(
        a_comparison(), what="scan", arms=(Arm(name="A", args=("--x", "1")), Arm(name="B", env={"Y": "1"}))
    )
    run = Run(path="", plan=plan, trials=())
    assert again(run) is None
    assert "No one command makes these arms" in html_report(run)


def test_a_lost_pair_leaves_the_other_figures_whole() -> None:
    plan = a_comparison()
    trials = tuple(measured(plan, {"B": 1.1})[:5])
    run = Run(path="", plan=plan, trials=trials, analysis=analyse(plan, trials, AT))
    assert html_report(run).count("<figure>") == 6
    assert "not taken: 006-" in html_report(run)
