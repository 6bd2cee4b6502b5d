"""Make docs/demo.svg from what the demo said: ``make demo >demo.txt; python docs/make_picture.py demo.txt``.

Only stdout is in it (commands and results); the progress that a person watches goes to stderr.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 112
PICTURE = Path(__file__).with_name("demo.svg")
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # they would be fetched from elsewhere


def main() -> None:
    lines = Path(sys.argv[1]).read_text().splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("$ "))
    console = Console(record=True, width=WIDTH, file=Path("/dev/null").open("w"), force_terminal=True)  # noqa: SIM115
    for line in lines[first:]:
        console.print(Text(line, style="bold green" if line.startswith("$ ") else ""), soft_wrap=False)
    PICTURE.write_text(FONTS.sub("", console.export_svg(title="make demo")))
    print(PICTURE)


if __name__ == "__main__":
    main()
