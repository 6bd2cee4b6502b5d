"""An entry to be, with what it rests on.

Owns: the wording. Refuses: to decide, to write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oeactl.core.hosts_text import entry_lines

if TYPE_CHECKING:
    from oeactl.core.adoption import Adopted


def adopted_view(name: str, entry: dict[str, Any], adopted: Adopted) -> Any:
    """What was learned, the entry, what was chosen or is not known, what was left out."""
    from rich.text import Text

    text = Text()
    for line in (*adopted.learned, *((f"engine: {adopted.engine}",) if adopted.engine else ())):
        text.append(f"{line}\n")
    if adopted.model:
        text.append(f"model: {adopted.model}\n")
    text.append("\nhosts:\n", "dim")
    text.append("\n".join(entry_lines(name, entry)) + "\n", "cyan")
    if adopted.unknown:
        text.append("\nnot inferred:\n", "yellow")
        text.append("".join(f"  {line}\n" for line in adopted.unknown))
    if adopted.left_out:
        text.append("\nvariables left out (--env NAME takes one over):\n", "yellow")
        text.append(f"  {' '.join(adopted.left_out)}\n")
    if adopted.secrets:
        text.append("\nsecrets are not copied; set these here before the next command:\n", "yellow")
        text.append("".join(f"  export {name}=…\n" for name in dict.fromkeys(adopted.secrets)))
    text.rstrip()
    return text


def adopted_document(
    name: str, entry: dict[str, Any], adopted: Adopted, written: str | None
) -> dict[str, Any]:
    """The same as one document. written: the file that has the entry now."""
    return {
        "host": name,
        "entry": entry,
        "learned": adopted.learned,
        "not_inferred": adopted.unknown,
        "left_out": adopted.left_out,
        "secrets": adopted.secrets,
        "engine": adopted.engine,
        "model": adopted.model,
        "written": written,
    }
