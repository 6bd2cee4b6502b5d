"""Hardware entries for ``oeactl predict``: those that come with oeactl, or a file of one's own.

Owns: finding and reading them. Refuses: to compute with them (core/experts.py does).
"""

from __future__ import annotations

from pathlib import Path

from oeactl.core.document import build, nearest, parse
from oeactl.core.experts import Hardware
from oeactl.errors import UsageError

_FOLDER = Path(__file__).resolve().parent.parent / "data" / "hardware"


def hardware_names() -> tuple[str, ...]:
    """The entries that come with oeactl."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def read_hardware(name: str) -> Hardware:
    """Read an entry by name, or a YAML file. Raises UsageError: unknown, or a mistake at file and line."""
    packaged = _FOLDER / f"{name}.yaml"
    path = packaged if name in hardware_names() else Path(name)
    if not path.is_file():
        meant = nearest(name, hardware_names())
        raise UsageError(
            f"no hardware is called '{name}', and no file",
            where="--hardware",
            hint=f"did you mean '{meant}'?" if meant else f"known: {', '.join(hardware_names())}",
        )
    found = build(parse(path.read_bytes(), str(path)), Hardware)
    for field in ("bandwidth_bytes_per_s", "bits_per_weight"):
        if not getattr(found, field) > 0:
            raise UsageError(f"'{field}' must be more than 0", where=str(path))
    return found
