"""A recipe's own script, run on this machine: only where --allow-code was said.

Owns: a process of its own for it, in an empty folder, with libcst at hand and a limit on its time. Refuses:
to be a sandbox (the person has read the script), and an answer that is another one the second time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from oeactl.core.transform import FUNCTION, Script, TransformFailed

LIMIT_S = 60.0

PROGRAM = f"""
import json, os, sys
given = json.loads(sys.stdin.buffer.read())
out = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="")
os.dup2(2, 1)
space = {{"__name__": "transform", "__file__": given["where"]}}
exec(compile(given["script"], given["where"], "exec"), space)
text = space["{FUNCTION}"](given["source"], given["values"])
if not isinstance(text, str):
    sys.exit("it answered " + type(text).__name__ + ", not str")
json.dump(text, out)
out.close()
"""


class ChildTransformer:
    """core.transform.Transformer by a child process, twice."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s

    def __call__(self, script: Script, source: str, values: Mapping[str, Any]) -> str:
        given = {"script": script.text, "where": script.where, "source": source, "values": dict(values)}
        message = json.dumps(given).encode()
        first = self._run(message)
        if self._run(message) != first:
            raise TransformFailed("it answers differently each time")
        return first

    def _run(self, message: bytes) -> str:
        with tempfile.TemporaryDirectory() as empty:
            try:
                done = subprocess.run(
                    [sys.executable, "-I", "-c", PROGRAM],
                    input=message,
                    capture_output=True,
                    cwd=empty,
                    env={"PATH": os.environ.get("PATH", os.defpath)},
                    timeout=self._limit_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise TransformFailed(f"it did not end within {self._limit_s:g} s") from None
        if done.returncode != 0:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise TransformFailed(lines[-1] if lines else f"exit code {done.returncode}")
        answer = json.loads(done.stdout)
        assert isinstance(answer, str)
        return answer
