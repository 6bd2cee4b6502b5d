"""Write the figures of docs/statistics.md, by simulation. A test keeps them true.

Everything between the two marks is made; the words around it are kept by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "statistics.md"
BEGIN, END = "<!-- figures: made by docs/make_statistics.py -->", "<!-- end of the figures -->"
PAIRS = (3, 4, 6, 10)


def figures() -> str:
    """The tables, as Markdown."""
    sys.path.insert(0, str(ROOT))
    from oeactl.core import stats
    from tests.support import simulation as made

    head = " | ".join(str(pairs) for pairs in PAIRS)
    lines = [
        f"How often the 95 % interval holds the truth (20,000 runs each, restart SD {made.SD:.1%}, "
        f"drift {made.STEP:.1%} a restart), by number of pairs:",
        "",
        f"| analysis | drift | {head} |",
        "|---|---|" + "---|" * len(PAIRS),
    ]
    for analysis in ("paired", "regression"):
        for drift in made.DRIFTS:
            held = [made.coverage(pairs, drift, analysis=analysis) for pairs in PAIRS]
            lines.append(f"| {analysis} | {drift} | " + " | ".join(f"{one:.1%}" for one in held) + " |")
    lines += [
        "",
        "How often something is shown that is not there:",
        "",
        "| what | runs | error |",
        "|---|---|---|",
    ]
    for pairs in (3, 6):
        for corrected in (True, False):
            error = made.family_error(6, pairs, corrected=corrected)
            name = "Holm" if corrected else "uncorrected"
            lines.append(f"| any of six levels, {pairs} pairs, {name} | 20,000 | {error:.1%} |")
    for corrected in (True, False):
        error = made.arms_error(4, 4, corrected=corrected)
        name = "alpha / 3 each" if corrected else "uncorrected"
        lines.append(f"| any of three arms against the first, 4 pairs, {name} | 20,000 | {error:.1%} |")
    for pairs, alpha in ((6, 0.019), (10, 0.012), (6, 0.05), (10, 0.05)):
        error = made.looking_error(pairs, alpha)
        lines.append(f"| a look after every pair, 3 to {pairs}, alpha {alpha} each | 40,000 | {error:.1%} |")
    lines += [
        "",
        "The smallest effect that is seen four times out of five, %, by the SD of one arm's restarts:",
        "",
        "| pairs | 0.5 % | 1 % | 2 % | 3 % |",
        "|---|---|---|---|---|",
    ]
    for pairs in PAIRS:
        cells = [stats.smallest_effect(trial_sd=sd, pairs=pairs) for sd in (0.005, 0.01, 0.02, 0.03)]
        lines.append(f"| {pairs} | " + " | ".join(f"{100 * (cell or 0):.1f}" for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def page(old: str) -> str:
    """The page with its figures made anew."""
    before, _, rest = old.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{figures()}\n{END}{after}"


if __name__ == "__main__":
    TARGET.write_text(page(TARGET.read_text()))
