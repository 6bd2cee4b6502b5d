"""A run as one HTML file that needs nothing else: no script, no font, no image, no request.

Owns: the order in which it is told, the ratio with its interval and margin first. Refuses: to judge, and to
draw what was not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files

from oeactl.core.experiment import Verdict
from oeactl.core.run import Run, Trial
from oeactl.core.series import build_of, card_spread, counted, lines, unseen_because
from oeactl.render import page_tables as tables
from oeactl.render.axes import mark, svg
from oeactl.render.experiment import failure_lines, verdict_lines
from oeactl.render.figures import (
    CARDS,
    experts_figure,
    order_figure,
    rate_by_gpu,
    ratio_figure,
    restarts_figure,
    throughput_figure,
    tradeoff_figure,
)
from oeactl.render.markup import Child, Markup, el, joined
from oeactl.render.meaning import meanings
from oeactl.render.page_ground import again_part, change_part, ground_part, plan_part

WIDE, NARROW = 820.0, 340.0
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_BIG = {
    "improved": "{arm} is faster than {against}",
    "regressed": "{arm} is slower than {against}",
    "equivalent": "{arm} and {against} are equally fast, within the margin",
    "inconclusive": "Not decided between {arm} and {against}",
    "void": "Nothing can be said of {arm} against {against}",
}


_UNCOMPARED = {
    "bench": "One server start, measured as it ran: figures of this start, not a comparison.",
    "import": "Figures that another tool measured, as its files tell them: not a comparison.",
}


def html_report(run: Run) -> str:
    """The whole file."""
    style = files("oeactl.render").joinpath("report.css").read_text(encoding="utf-8")
    parts = [(name, title, body) for name, title, body in _parts(run) if body]
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", f"{title_of(run)} · {run.plan.run_id}"),
        el("style", Markup(style)),
    )
    nav = el("nav", [el("a", title, href=f"#{name}") for name, title, _ in parts], aria_label="Contents")
    sections = [el("section", el("h2", title, id=name), body) for name, title, body in parts]
    body = el("body", el("main", *_opening(run), nav, sections, _closing(run)))
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def title_of(run: Run) -> str:
    """'oea (k0=4) against pristine', or what a bench measured."""
    arms = run.plan.arms
    if run.plan.design is None:
        return f"{run.plan.label}: {build_of(run, arms[0])}"
    if run.plan.what == "aa":
        return f"{arms[0].described} against itself"
    if len(arms) == 2:
        return f"{arms[1].described} against {arms[0].described}"
    return f"{run.plan.label}: {len(arms)} builds"


def _opening(run: Run) -> Iterator[Child]:
    trial = next(iter(run.trials), None)
    told = [run.plan.run_id, f"{run.plan.what} on {run.plan.host}"]
    if trial is not None:
        told += [f"{trial.engine.package} {trial.engine.version or 'of unknown version'}"]
        told += [trial.model.served_name or trial.model.path or "unknown model"]
    yield el("h1", title_of(run))
    yield el("p", " · ".join(told), class_="over")
    yield from (_verdict(run, one) for one in (run.analysis.verdicts if run.analysis else ()))
    if run.plan.design is None:
        yield el(
            "div",
            el("div", "No verdict", class_="says"),
            el("p", _UNCOMPARED["import" if run.plan.what == "import" else "bench"]),
            class_="verdict none",
        )
    elif not (run.analysis and run.analysis.verdicts):
        yield el("div", el("div", "No verdict yet", class_="says"), class_="verdict none")
    for warning, words in meanings(run):
        yield el("div", words, class_="meaning" if warning else "meaning calm", role="note")
    yield el(
        "ul",
        [
            el("li", sample(at), el("span", el("b", arm.name), f" {build_of(run, arm)}"))
            for at, arm in enumerate(run.plan.arms)
        ],
        class_="arms",
    )


def _verdict(run: Run, verdict: Verdict) -> Markup:
    first, *rest = verdict_lines(verdict, run.plan)
    assert run.plan.design is not None
    beyond = f", by more than the margin of {run.plan.design.margin:.0%}" if verdict.material else ""
    big = _BIG[verdict.says].format(arm=verdict.arm, against=verdict.against) + beyond
    return el(
        "div",
        el("div", verdict.says, class_="says"),
        el("div", big, class_="big"),
        el("p", _sentence(first.partition(": ")[2].removeprefix(f"{verdict.says}, "))),
        el("ul", [el("li", line.strip()) for line in rest]) if rest else None,
        class_=f"verdict {verdict.says}",
    )


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def sample(series: int) -> Markup:
    """The mark of an arm, for legends."""
    drawn = svg(16, 14, "", mark(8, 7, series, r=4.5))
    return Markup(drawn.replace('role="img" aria-label=""', 'aria-hidden="true"'))


def _parts(run: Run) -> Iterator[tuple[str, str, Markup]]:
    yield "ratio", "Ratio by level", _ratio(run)
    every = "Throughput, every restart" if run.plan.design else "Throughput"
    yield "throughput", every, _throughput(run)
    yield "order", "Trials in run order", _order(run)
    yield "tradeoff", "Throughput against speed for a user", _tradeoff(run)
    yield "experts", "Distinct experts", _experts(run)
    yield "latency", "Latency", tables.latency(run)
    yield "accuracy", "Accuracy", tables.accuracy(run)
    yield "failed", "Not measured", _failed(run)
    yield "gates", "Gates", tables.gates(run)
    yield "plan", "The plan", plan_part(run)
    yield "change", "The change", change_part(run)
    yield "ground", "Measured on", ground_part(run)
    yield "again", "Make it again", again_part(run)


def _figure(run: Run, draw: Callable[[Run, float], Markup | None], caption: str, numbers: Markup) -> Markup:
    """The figure at both widths, its legend, caption and numbers; nothing where nothing was measured."""
    wide, narrow = draw(run, WIDE), draw(run, NARROW)
    if wide is None or narrow is None:
        return Markup("")
    drawn = lines(run)
    shown = (
        el("div", [el("span", sample(at), one.name) for at, one in enumerate(drawn)], class_="legend")
        if len(drawn) > 1
        else None
    )
    return joined(
        [
            el(
                "figure",
                shown,
                el("div", wide, class_="wide"),
                el("div", narrow, class_="narrow"),
                el("figcaption", caption),
            ),
            el("details", el("summary", "The numbers"), numbers),
        ]
    )


def _ratio(run: Run) -> Markup:
    design = run.plan.design
    if design is None:
        return Markup("")
    caption = (
        f"The interval of the mean over levels decides; the band is the margin of {design.margin:.0%} fixed "
        "beforehand. A filled mark is shown (levels: by Holm), a hollow one is not. Intervals of single "
        "levels are as wide as all of them together need."
    )
    return _figure(run, ratio_figure, caption, tables.ratios(run))


def _throughput(run: Run) -> Markup:
    caption = (
        "Output tokens a second of valid levels, from zero. A mark is one server start; lines join the means."
    )
    first = _figure(run, throughput_figure, caption, tables.rates(run))
    close = "Close up: each panel has its own scale, which does not begin at zero; a thin line joins a pair."
    second = _figure(run, restarts_figure, close, tables.pairs(run))
    return joined([first, second])


def _order(run: Run) -> Markup:
    first = run.plan.arms[0].name
    seen = any(card_spread(trial, name) for trial in counted(run) for name, _ in CARDS)
    caption = (
        f"Each restart's tok/s over the mean of {first} at the same levels. A slope over both arms is a "
        "drift of the machine; the order was drawn so that it falls on all arms alike. Hollow: without some "
        "of the levels; a cross: without any. "
    )
    caption += "Below: mean, least and most of the server's GPUs." if seen else "No GPU's clock was seen."
    return _figure(run, order_figure, caption, tables.trials(run))


def _tradeoff(run: Run) -> Markup:
    _, unit = rate_by_gpu(run)
    caption = (
        f"Means over restarts: {unit} upwards, the time a user waits for each token to the right; the "
        "figures at the marks are levels."
    )
    if len(run.plan.arms) > 1:
        caption += f" Arrows lead from {run.plan.arms[0].name} to the other arm at the same level."
    return _figure(run, tradeoff_figure, caption, tables.tradeoffs(run))


def _experts(run: Run) -> Markup:
    caption = "Seen on the live server in a batch of that size; dashed: what uniform routing would use."
    drawn = _figure(run, experts_figure, caption, tables.experts(run))
    if drawn:
        return drawn
    said = "; ".join(unseen_because(run)) or "this run did not look (--experts does)"
    return el("p", f"Not measured: {said}.", class_="soft")


def _failed(run: Run) -> Markup:
    told = [
        *failure_lines(run),
        *(f"left out: {cell.described}" for cell in run.plan.sweep.skipped),
        *(f"skipped {one.path}: {one.why}" for one in run.skipped),
    ]
    if not told:
        return Markup("")
    return joined([el("ul", [el("li", line) for line in told]), [_tail(trial) for trial in run.trials]])


def _tail(trial: Trial) -> Markup:
    if trial.failure is None or not trial.failure.tail:
        return Markup("")
    return el(
        "details",
        el("summary", f"{trial.name}: the last lines of the server's log"),
        el("pre", "\n".join(trial.failure.tail), class_="wrap"),
    )


def _closing(run: Run) -> Markup:
    return el(
        "p",
        f"Written by oeactl from {run.plan.run_id}; plan made by oeactl {run.plan.oeactl_version}.",
        class_="over",
    )
