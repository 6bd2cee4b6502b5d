"""How long a plan takes, against libcst's parse of the same files.

    python benchmarks/plan.py [--version 0.5.23] [--rounds 15]

Plans recipe ``oea`` on a release's two files with every in-memory gate, then parses the same two files
with libcst, in turn, and prints the median of each and the median of the paired ratios. Imports are not
counted. Exit 1 when the ratio is above the bar of 3.

Then a plan of three edits on generated modules of 10 kB, 100 kB and 1 MB, and the import of such a change:
what a kB costs (of processor time) stays the same.
Exit 1 when a kB of the largest costs more than twice a kB of the middle one. Last, the same plan for many
hosts: a source is worked out once.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import libcst

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oeactl.core.changes import forget
from oeactl.core.host import Survey
from oeactl.core.import_recipe import FileChange, import_recipe
from oeactl.core.parameters import Bound, bind
from oeactl.core.plan import Planned, make_plan
from oeactl.core.recipe import load_recipe
from tests.support.recipes import MODULE, recipe_of
from tests.support.surveys import HOLDER, survey_of
from tests.support.wheels import engine_file

BAR = 3.0
FUNCTION = b"def f%06d(a, b=None):\n    c = [a, b]\n    return g(*c) if b else a\n\n\n"
EDITS = """\
- {id: note, op: insert_after, at: {statement: x = 1}, code: y = OEACTL.size}
- {id: start, op: body_start, scope: [def f000007], bound: [a], code: a = a or 1}
- {id: tail, op: append, code: z = OEACTL.size}
"""


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
    linear = [_sizes("plan", _planning, max(3, options.rounds // 3)), _sizes("import", _importing, 1)]
    _hosts(bound, survey)
    return 0 if ratio <= BAR and all(linear) else 1


def _sizes(name: str, work_on: Callable[[bytes], Callable[[], None]], rounds: int) -> bool:
    """Print what some work costs by the size of its file; whether that is linear."""
    per_kb = []
    for size in (10_000, 100_000, 1_000_000):
        source = b"x = 1\n\n\n" + b"".join(FUNCTION % number for number in range(size // len(FUNCTION)))
        work = work_on(source)
        work()
        seconds = min(_seconds(work, time.process_time) for _ in range(rounds))
        per_kb.append(seconds / len(source) * 1e6)
        print(f"{name:8}{len(source) / 1e3:9.0f} kB {seconds * 1e3:8.1f} ms    {per_kb[-1]:.3f} ms a kB")
    return per_kb[2] <= 2 * per_kb[1]


def _planning(source: bytes) -> Callable[[], None]:
    bound = bind(recipe_of(EDITS), {}, {})
    survey = survey_of({MODULE: source})

    def work() -> None:
        forget()
        made = make_plan(bound, survey, operation="bench", applied_at="", applied_by=HOLDER)
        assert isinstance(made, Planned), made

    return work


def _importing(source: bytes) -> Callable[[], None]:
    after = source.replace(b"x = 1\n", b"x = 1\ny = 2\n").replace(
        b"def f000007(a, b", b"def f000007(a, c=1, b"
    )
    change = FileChange(path="sglang/a.py", before=source, after=after.rstrip() + b"\n# the end\n")

    def work() -> None:
        forget()
        made = import_recipe("mine", [change], title="t", summary="", package="sglang", version=None)
        assert made.edits == 3 and not made.left, made.left

    return work


def _hosts(bound: Bound, survey: Survey, count: int = 16) -> None:
    """Print what the first and a further host of the same release cost."""
    forget()

    def plan() -> None:
        make_plan(bound, survey, operation="bench", applied_at="", applied_by=HOLDER)

    first = _seconds(plan)
    further = statistics.median(_seconds(plan) for _ in range(count))
    print(f"{'first host':20} {first * 1e3:8.1f} ms    each of {count} further ones {further * 1e3:.1f} ms")


def _seconds(work: Callable[[], None], clock: Callable[[], float] = time.perf_counter) -> float:
    begun = clock()
    work()
    return clock() - begun


if __name__ == "__main__":
    raise SystemExit(main())
