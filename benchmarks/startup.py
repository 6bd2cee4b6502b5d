"""How quick ``oeactl --help`` is, beside the ``--help`` of a typer app of two commands.

    python benchmarks/startup.py [--pairs 31]

Owns: the measurement. Both programs run alternately in the same interpreter's environment, each in a process
of its own, wall time from start to exit; reported are the medians and the median of the ratios of the pairs,
at most 1.2 by design. The peer is typer as it comes (with rich help), and again without rich, as oeactl is.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

PEER = """
import typer

app = typer.Typer({options})


@app.command()
def one(count: int = 1) -> None:
    \"\"\"Do the one.\"\"\"


@app.command()
def two(name: str = "x") -> None:
    \"\"\"Do the other.\"\"\"


if __name__ == "__main__":
    app()
"""
LIMIT = 1.2


def seconds(argv: list[str]) -> float:
    """Wall time of one run."""
    begun = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def paired(ours: list[str], peer: list[str], pairs: int) -> tuple[float, float, float]:
    """Medians of both, and of their ratios, over runs that alternate (the first pair warms caches up)."""
    runs = [(seconds(ours), seconds(peer)) for _ in range(pairs + 1)][1:]
    return (
        statistics.median(mine for mine, _ in runs),
        statistics.median(theirs for _, theirs in runs),
        statistics.median(mine / theirs for mine, theirs in runs),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=31)
    pairs = parser.parse_args().pairs
    ours = [sys.executable, "-m", "oeactl", "--help"]
    worst = 0.0
    with TemporaryDirectory() as folder:
        for name, options in (("typer, two commands, no rich", "rich_markup_mode=None"), ("as it comes", "")):
            peer = Path(folder) / "peer.py"
            peer.write_text(PEER.format(options=options))
            mine, theirs, ratio = paired(ours, [sys.executable, str(peer), "--help"], pairs)
            print(f"oeactl --help {mine * 1e3:.1f} ms; {name} {theirs * 1e3:.1f} ms; ratio {ratio:.2f}")
            worst = max(worst, ratio)
    print(f"at most {LIMIT}: {'yes' if worst <= LIMIT else 'no'}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
