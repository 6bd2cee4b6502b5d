"""The HTML report in a real Chromium: it renders, asks for nothing, complains of nothing, and can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oeactl.core.run import Run
from oeactl.render.page import html_report
from tests.support import chromium
from tests.support.chromium import Page
from tests.support.report_world import a_rich_bench, a_rich_comparison

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.skipif(chromium.found() is None, reason="no chromium here: apt-get install chromium"),
]
RUNS = {"ab": a_rich_comparison, "scan": lambda: a_rich_comparison(4), "bench": a_rich_bench}
WIDTHS = {"wide": 1100, "narrow": 360}

#: Text and ground of everything that holds text itself: [what, ratio by WCAG 2].
CONTRAST = """
(() => {
  const rgb = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = node => {
    for (let at = node; at; at = at.parentElement) {
      const found = rgb(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const worst = {};
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some(one => one.nodeType === 3 && one.data.trim());
    if (!own || node.closest('title') || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const ink = rgb(node instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(ink), light(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const name = node.tagName + '.' + (node.getAttribute('class') || '');
    worst[name] = Math.min(worst[name] ?? 99, ratio);
  }
  return Object.entries(worst);
})()
"""
#: Every text of the figures on show that leaves its drawing, and how many figures are on show.
FIGURES = """
(() => {
  const shown = [...document.querySelectorAll('figure svg')].filter(
    one => one.getClientRects().length && one.viewBox.baseVal.width > 50);
  const out = [];
  for (const drawing of shown) {
    const box = drawing.getBoundingClientRect();
    for (const one of drawing.querySelectorAll('text')) {
      const it = one.getBoundingClientRect();
      const aside = it.left < box.left - 1 || it.right > box.right + 1;
      if (aside || it.top < box.top - 1 || it.bottom > box.bottom + 1)
        out.push(one.textContent);
    }
  }
  const small = shown.flatMap(one => [...one.querySelectorAll('text')])
    .map(one => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a);
  return {count: shown.length, out, smallest: Math.min(...small)};
})()
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium.browsing(tmp_path_factory.mktemp("chromium")) as one:
        yield one


def written(tmp_path: Path, run: Run) -> str:
    path = tmp_path / "report.html"
    path.write_text(html_report(run))
    return path.as_uri()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", RUNS)
def test_it_renders_quietly_and_everything_can_be_read(
    page: Page, kind: str, width: str, dark: bool, tmp_path: Path
) -> None:
    url = written(tmp_path, RUNS[kind]())
    page.open(url, width=WIDTHS[width], dark=dark)
    assert page.asked == [url]
    assert page.said == []
    assert page.eval("document.documentElement.scrollWidth") <= WIDTHS[width]
    figures = page.eval(FIGURES)
    assert figures["count"] == {"ab": 5, "scan": 5, "bench": 3}[kind]
    assert figures["out"] == []
    assert figures["smallest"] >= 10  # pixels
    weak = {name: round(ratio, 2) for name, ratio in page.eval(CONTRAST) if ratio < 4.5}
    assert weak == {}
    page.picture(tmp_path / f"{kind}.png")


def test_it_is_dark_where_the_reader_s_system_is(page: Page, tmp_path: Path) -> None:
    url = written(tmp_path, a_rich_bench())
    grounds = []
    for dark in (False, True):
        page.open(url, width=1100, dark=dark)
        grounds.append(page.eval("getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] != grounds[1]


def test_a_page_that_asks_or_complains_would_be_seen(page: Page, tmp_path: Path) -> None:
    """The instrument itself: what this file trusts to be empty fills where it should."""
    bad = tmp_path / "bad.html"
    text = "<img src='http://127.0.0.1:9/x.png'><script>console.error('oh')</script>"
    bad.write_text(f"<!doctype html><body style='width: 2000px; color: #999'>{text}<p>pale")
    page.open(bad.as_uri(), width=360)
    assert page.asked == [bad.as_uri(), "http://127.0.0.1:9/x.png"]
    assert any("oh" in line for line in page.said)
    assert page.eval("document.documentElement.scrollWidth") > 360
    ((name, ratio),) = page.eval(CONTRAST)
    assert name == "P." and ratio < 4.5
    strict = tmp_path / "strict.html"
    own = html_report(a_rich_bench())
    strict.write_text(own.replace("</main>", f"{text}</main>"))
    page.open(strict.as_uri(), width=360)
    assert (
        "http://127.0.0.1:9/x.png" not in [url for url in page.asked if url.startswith("http")] or page.said
    )
    assert sum("Content Security Policy" in line for line in page.said) >= 2
