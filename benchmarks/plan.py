"""How long a plan takes, against libcst's parse of the same files.

    python benchmarks/plan.py [--version 0.5.23] [--rounds 15]

Plans recipe ``oea`` on a release's two files with every in-memory gate, then parses the same two files
with libcst, in turn, and prints the median of each and the median of the paired ratios. Imports are not
counted. Exit 1 when the ratio is above the bar of 3.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import time
from pathlib import Path

import libcst

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oeactl.core.changes import forget
from oeactl.core.parameters import bind
from oeactl.core.plan import Planned, make_plan
from oeactl.core.recipe import load_recipe
from tests.support.surveys import HOLDER, survey_of
from tests.support.wheels import engine_file

BAR = 3.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", default="0.5.23")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    folder = Path(__file__).resolve().parents[1] / "recipes" / "oea"
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    bound = bind(load_recipe(files), {}, {})
    sources = {
        module: engine_file(options.version, f"{module.replace('.', '/')}.py")
        for module in bound.recipe.modules
    }
    survey = survey_of(sources, version=options.version)

    def plan() -> None:
        forget()
        made = make_plan(bound, survey, operation="bench", applied_at="", applied_by=HOLDER)
        assert isinstance(made, Planned), made

    def parse() -> None:
        for source in sources.values():
            libcst.parse_module(source)

    plan()
    parse()
    rounds = [(_seconds(plan), _seconds(parse)) for _ in range(options.rounds)]
    ratio = statistics.median(planned / parsed for planned, parsed in rounds)
    for name, column in (("plan", 0), ("libcst.parse_module", 1)):
        print(f"{name:20} {statistics.median(row[column] for row in rounds) * 1e3:8.1f} ms")
    digest = hashlib.sha256(b"".join(sources.values())).hexdigest()[:12]
    print(f"{'ratio':20} {ratio:8.2f}    bar {BAR:g}, {options.rounds} pairs, {options.version} ({digest})")
    return 0 if ratio <= BAR else 1


def _seconds(work: object) -> float:
    begun = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - begun


if __name__ == "__main__":
    raise SystemExit(main())
