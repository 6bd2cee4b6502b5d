"""The small files in which a patched worker says what it went through.

Owns: ``server.proofs``. Refuses: to judge them (core/proof.py does), and to fail over one that is unreadable.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from . import record
from .journal import state_path
from .wire import operation

if TYPE_CHECKING:
    from .wire import Client, Request

REQUIRED = {
    "kind": str,
    "recipe": str,
    "digest": str,
    "parameters": dict,
    "file": str,
    "pid": int,
    "start_ticks": int,
}
OPTIONAL = {"mode": str, "layer": int, "rows": int, "reason": str, "counts": dict}
LARGEST = 1 << 20


@operation("server.proofs")
def proofs(request: Request, client: Client) -> dict[str, Any]:
    """Every readable proof in the state folder and in the one a server finds by itself; notes on the rest."""
    found, notes = [], []
    for folder in _folders(request["root"], request.get("state_dir")):
        for path in _files(folder):
            one, problem = _read(path)
            if one is not None:
                found.append(one)
            else:
                notes.append(f"{path}: {problem}")
    return {"proofs": found, "notes": notes}


def _folders(root: str, state_dir: str | None) -> list[str]:
    """Where we tell a server to write; and where one begun without us does, by the file's place."""
    homes = [state_path(root, state_dir), state_path(root, None)]
    return [record.proof_dir(home) for home in dict.fromkeys(homes)]


def _files(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [os.path.join(folder, name) for name in names if name.endswith(".json")]


def _read(path: str) -> tuple[dict[str, Any] | None, str]:
    """(the proof, "") or (None, what is wrong with it). Keys that we do not know are left out."""
    try:
        with open(path, "rb") as file:
            body = json.loads(file.read(LARGEST))
    except (OSError, ValueError) as error:
        return None, str(error)
    if not isinstance(body, dict):
        return None, "not a JSON object"
    for name, kind in REQUIRED.items():
        if not isinstance(body.get(name), kind):
            return None, f"no {name}"
    proof = {name: body[name] for name in REQUIRED}
    proof.update((name, body[name]) for name, kind in OPTIONAL.items() if isinstance(body.get(name), kind))
    return proof, ""
