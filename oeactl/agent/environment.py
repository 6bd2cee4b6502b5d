"""What a server, and whatever else is begun here, inherits from this program.

Owns: the few names that pass. Refuses: to know what hosts.yaml adds.
"""

from __future__ import annotations

import os

#: What a server and a probe inherit from this program; everything else comes from hosts.yaml.
INHERITED = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR")

_whole: list[bool] = []  # whether all of our own environment is the server's: so it is in a container


def inherit_all() -> None:
    """From here on a server's environment is all of ours."""
    _whole.append(True)


def on_path(program: str) -> bool:
    """Whether there is such a program to be begun."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(folder, program), os.X_OK) for folder in folders)


def base_environment() -> dict[str, str]:
    """The few variables that a server gets from this host; the rest is written in hosts.yaml.

    In a container all of them: what was made with it is the server's.
    """
    if _whole:
        return dict(os.environ)
    return {name: value for name, value in os.environ.items() if name in INHERITED or name.startswith("LC_")}
