"""A diagnosis: its table and its document.

Owns: the signs. Refuses: to judge (flows/doctor.py does).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oeactl.core.outcomes import Diagnosis

_SIGNS = {
    "ok": ("ok", "green"),
    "note": ("note", "yellow"),
    "bad": ("BAD", "bold red"),
    "unknown": ("?", "dim"),
}


def diagnosis_view(diagnosis: Diagnosis) -> Any:
    """A row a check, its remedy below it; a name is written once."""
    from rich.text import Text

    text = Text()
    width = max((len(check.name) + 2 for check in diagnosis.checks), default=0)
    before = ""
    for check in diagnosis.checks:
        sign, style = _SIGNS[check.state]
        text.append(f"{'' if check.name == before else check.name:<{width}}", "dim")
        text.append(f"{sign:<5}", style)
        text.append(f"{check.what}\n")
        if check.fix and check.state != "ok":
            text.append(f"{'':<{width + 5}}→ {check.fix}\n")
        before = check.name
    bad = sum(check.state == "bad" for check in diagnosis.checks)
    text.append(
        f"{diagnosis.host}: {f'{bad} bad' if bad else 'nothing is in the way'}", "red" if bad else "green"
    )
    return text


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """The rows, and the exit code that they amount to."""
    return {"host": diagnosis.host, "exit_code": diagnosis.worst, "checks": diagnosis.checks}
