"""Make the pictures of the demo from what it said.

    make demo >demo.txt; python docs/make_picture.py demo.txt

docs/demo.svg shows all of it, docs/demo-short.svg the change, its end and the two tables side by side. Only
stdout is in it (commands and results); the progress that a person watches goes to stderr. Give the file with
the demo's folder shortened, as the pictures show what is in it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 112
DOCS = Path(__file__).parent
SHORT = ("$ oeactl patch", "$ oeactl revert", "$ oeactl results compare")
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # they would be fetched from elsewhere


def picture(steps: Iterable[list[str]], path: Path) -> None:
    console = Console(record=True, width=WIDTH, file=Path("/dev/null").open("w"), force_terminal=True)  # noqa: SIM115
    for lines in steps:
        for line in lines:
            console.print(Text(line, style="bold green" if line.startswith("$ ") else ""), soft_wrap=False)
    path.write_text(FONTS.sub("", console.export_svg(title="make demo")))
    print(path)


def main() -> None:
    steps: list[list[str]] = []
    for line in Path(sys.argv[1]).read_text().splitlines():
        if line.startswith("$ "):
            steps.append([])
        if steps:
            steps[-1].append(line)
    picture(steps, DOCS / "demo.svg")
    picture((lines for lines in steps if lines[0].startswith(SHORT)), DOCS / "demo-short.svg")


if __name__ == "__main__":
    main()
