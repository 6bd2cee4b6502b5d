"""The small files in which a patched worker says what it went through.

Owns: ``server.proofs``. Refuses: to judge them (core/proof.py does), and to fail over one that is unreadable.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from . import record
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
OPTIONAL = {"mode": str, "layer": int, "rows": int}
LARGEST = 1 << 20


@operation("server.proofs")
def proofs(request: Request, client: Client) -> dict[str, Any]:
    """Every readable proof in the state folder and in the one a server finds by itself; notes on the rest."""
    folders = [record.proof_dir(record.state_dir(request))]
    own = record.proof_dir(record.state_dir({**request, "state_dir": None}))
    if own not in folders:
        folders.append(own)
    found, notes = [], []
    for folder in folders:
        for path in _files(folder):
            one, problem = _read(path)
            if one is not None:
                found.append(one)
            else:
                notes.append(f"{path}: {problem}")
    return {"proofs": found, "notes": notes}


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
