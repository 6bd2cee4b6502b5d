"""A stand-in for nvidia-smi that prints samples as real cards do: an H200, an RTX PRO 6000, a vGPU.

``Cards(folder)`` puts it there as a program; what it says is read anew for every line, so a test may change
it meanwhile. Its forms are those of drivers 470 to 580: ``[N/A]`` for what a card has not, the old name of
``clocks_event_reasons``, exit 2 and a sentence for a field it does not know.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

H200 = {
    "name": "NVIDIA H200 NVL",
    "clocks.sm": "1980",
    "clocks.mem": "3201",
    "power.draw": "402.17",
    "enforced.power.limit": "600.00",
    "power.limit": "600.00",
    "temperature.gpu": "45",
    "temperature.memory": "52",
    "clocks_event_reasons.active": "0x0000000000000000",
    "clocks_throttle_reasons.active": "0x0000000000000000",
    "utilization.gpu": "98",
    "memory.used": "72000",
    "memory.total": "143771",
}
RTX_PRO_6000 = {
    **H200,
    "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "clocks.sm": "2370",
    "clocks.mem": "12481",
    "power.draw": "318.44",
    "temperature.gpu": "61",
    "temperature.memory": "[N/A]",
    "memory.used": "88412",
    "memory.total": "97887",
}
VGPU = {
    **dict.fromkeys(H200, "[N/A]"),
    "name": "NVIDIA A40-8Q",
    "utilization.gpu": "37",
    "memory.used": "5120",
    "memory.total": "8192",
}
IDLE, POWER_CAP, SW_THERMAL = "0x0000000000000001", "0x0000000000000004", "0x0000000000000020"

_PROGRAM = """#!{python} -IS
import json, sys, time
words = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
while True:
    with open({state!r}) as file:
        state = json.load(file)
    if state["broken"]:
        print(state["broken"])
        sys.exit(9)
    if "--query-compute-apps" in words:
        for holder in state["holders"]:
            print(", ".join(holder), flush=True)
    else:
        names = words["--query-gpu"].split(",")
        for name in names:
            if name in state["unknown"]:
                print('Field "%s" is not a valid field to query.\\n' % name)
                sys.exit(2)
        for card in state["cards"]:
            print(", ".join(card.get(name, "[N/A]") for name in names), flush=True)
    if "--loop" not in words:
        break
    time.sleep(state["every_s"])
"""


@dataclass
class Cards:
    """folder: where the program lies; put it on PATH. holders: (card, pid, MiB, name)."""

    folder: Path
    cards: list[dict[str, str]] = field(default_factory=list)
    holders: list[tuple[int, int, str, str]] = field(default_factory=list)
    unknown: tuple[str, ...] = ()
    broken: str = ""
    every_s: float = 0.1

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        program = self.folder / "nvidia-smi"
        program.write_text(_PROGRAM.format(python=sys.executable, state=str(self.folder / "state.json")))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.say()

    def say(self, **changes: Any) -> None:
        """Say that from now on."""
        for name, value in changes.items():
            setattr(self, name, value)
        cards = [{"index": str(n), "uuid": self.uuid(n), **card} for n, card in enumerate(self.cards)]
        holders = [[self.uuid(card), str(pid), mib, name] for card, pid, mib, name in self.holders]
        state = {
            "cards": cards,
            "holders": holders,
            "unknown": self.unknown,
            "broken": self.broken,
            "every_s": self.every_s,
        }
        beside = self.folder / "state.new"
        beside.write_text(json.dumps(state))
        beside.replace(self.folder / "state.json")

    @staticmethod
    def uuid(card: int) -> str:
        return f"GPU-{card:08x}-69e0-4b52-9a2f-1e3cdd1f0b77"

    @property
    def path(self) -> str:
        """PATH with it in front."""
        return f"{self.folder}{os.pathsep}{os.environ['PATH']}"
