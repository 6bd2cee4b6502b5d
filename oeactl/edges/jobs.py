"""One command on a host, watched from here.

Owns: ``run_job``. Refuses: to read what the command wrote.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence

from oeactl.core.host import Value
from oeactl.edges.answers import answer_of
from oeactl.ports import Agent


class Spent(Value, frozen=True, kw_only=True):
    """How much CPU a command had had at a moment, in seconds, and how many lines it had said before."""

    at_s: float
    cpu_s: float
    lines: int


class JobResult(Value, frozen=True, kw_only=True):
    """How it ended. returncode is negative for a signal. out: what ``{out}`` held, None if nothing.

    tail: its last lines, of stdout and stderr together; a progress bar counts once. seconds: on the host.
    spent: its CPU as it went, without its children's.
    """

    returncode: int
    timed_out: bool
    tail: tuple[str, ...]
    out: bytes | None
    seconds: float
    spent: tuple[Spent, ...] = ()


def run_job(
    agent: Agent,
    *,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None = None,
    given: bytes | None = None,
    deadline_s: float,
    on_line: Callable[[str], None] = lambda line: None,
) -> JobResult:
    """Run ``argv`` on the host; ``{out}`` in it becomes a fresh path, ``{in}`` a file that holds ``given``.

    env comes over the host's basics.

    Lines arrive four times a second; of a progress bar only its newest state does. Leaving by an exception
    (Ctrl-C) ends the command with all its children. Raises UsageError when it cannot be begun.
    """

    spent: list[Spent] = []
    said = 0

    def told(event: Mapping[str, object]) -> None:
        nonlocal said
        lines, at_s, cpu_s = (event.get(name) for name in ("lines", "at_s", "cpu_s"))
        if isinstance(at_s, float) and isinstance(cpu_s, float):
            spent.append(Spent(at_s=at_s, cpu_s=cpu_s, lines=said))
        for line in lines if isinstance(lines, list) else ():
            said += 1
            on_line(line)

    fields = {"argv": list(argv), "env": dict(env), "cwd": cwd, "deadline_s": deadline_s}
    if given is not None:
        fields["input"] = base64.b64encode(given).decode("ascii")
    answer = answer_of(agent, "job", told, **fields)
    out = answer["out"]
    return JobResult(
        returncode=answer["returncode"],
        timed_out=answer["timed_out"],
        tail=tuple(answer["tail"]),
        out=None if out is None else base64.b64decode(out),
        seconds=answer["seconds"],
        spent=tuple(spent),
    )
