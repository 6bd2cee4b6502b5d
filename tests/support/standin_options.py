"""The options of the stand-in's ``create`` and ``run``: which there are, and what inspect says of each.

Refuses: a flag that is not here, as docker refuses one that it does not know.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

DAEMON = "Error response from daemon:"
Doc = dict[str, Any]


class Failure(Exception):
    """What docker says on stderr, and its exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def options(words: list[str]) -> tuple[dict[str, list[str]], str, list[str]]:
    """(flag -> values, image, command), as docker cuts them. An unknown flag is an error."""
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        flag, equals, value = words[at].partition("=")
        if flag in SWITCHES:
            found.setdefault(flag, []).append(value or "true")
        elif flag in VALUES:
            at += 0 if equals else 1
            found.setdefault(flag, []).append(value if equals else words[at])
        else:
            raise Failure(f"unknown flag: {flag}", 125)
        at += 1
    if at == len(words):
        raise Failure("docker: requires at least 1 argument", 125)
    return found, words[at], words[at + 1 :]


def _list(section: str, key: str) -> Any:
    return lambda doc, values: doc[section].update({key: [*(doc[section].get(key) or ()), *values]})


def _one(section: str, key: str, kind: Any = str) -> Any:
    return lambda doc, values: doc[section].update({key: kind(values[-1])})


def _pairs(section: str, key: str) -> Any:
    def put(doc: Doc, values: list[str]) -> None:
        pairs = dict(value.partition("=")[::2] for value in values)
        doc[section][key] = {**(doc[section].get(key) or {}), **pairs}

    return put


def _env(doc: Doc, values: list[str]) -> None:
    """``NAME`` alone takes docker's own variable over, and nothing where there is none."""
    given = {}
    for value in values:
        name, equals, text = value.partition("=")
        if equals or name in os.environ:
            given[name] = text if equals else os.environ[name]
    old = dict(one.split("=", 1) for one in doc["Config"]["Env"])
    merged = {**given, **{name: value for name, value in old.items() if name not in given}}
    doc["Config"]["Env"] = [f"{name}={value}" for name, value in merged.items()]


def _mount(doc: Doc, values: list[str]) -> None:
    for value in values:
        parts = dict(part.partition("=")[::2] for part in value.split(","))
        if not Path(parts["source"]).exists():
            what = f"bind source path does not exist: {parts['source']}"
            raise Failure(f'{DAEMON} invalid mount config for type "bind": {what}')
        mount = {"Type": parts["type"], "Source": parts["source"], "Target": parts["target"]}
        mount.update({"ReadOnly": True} if "readonly" in parts else {})
        doc["HostConfig"]["Mounts"] = [*(doc["HostConfig"].get("Mounts") or ()), mount]


def _gpus(doc: Doc, values: list[str]) -> None:
    text = values[-1].strip('"')
    ids = text.removeprefix("device=").split(",") if text.startswith("device=") else None
    count = 0 if ids else -1 if text == "all" else int(text)
    one = {"Driver": "", "Count": count, "DeviceIDs": ids, "Capabilities": [["gpu"]], "Options": {}}
    doc["HostConfig"]["DeviceRequests"] = [one]


def _restart(doc: Doc, values: list[str]) -> None:
    name, _, count = values[-1].partition(":")
    doc["HostConfig"]["RestartPolicy"] = {"Name": name, "MaximumRetryCount": int(count or 0)}


def _publish(doc: Doc, values: list[str]) -> None:
    for value in values:
        *address, outer, inner = value.split(":")
        ports = {"HostIp": ":".join(address), "HostPort": outer}
        doc["HostConfig"]["PortBindings"].setdefault(inner if "/" in inner else f"{inner}/tcp", []).append(
            ports
        )


def _ulimits(doc: Doc, values: list[str]) -> None:
    for value in values:
        name, _, limits = value.partition("=")
        soft, _, hard = limits.partition(":")
        one = {"Name": name, "Hard": int(hard or soft), "Soft": int(soft)}
        doc["HostConfig"]["Ulimits"].append(one)


def _bytes(text: str) -> int:
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    return int(float(text[:-1]) * units[text[-1]]) if text[-1].lower() in units else int(text)


VALUES: dict[str, Any] = {
    "-e": _env, "--env": _env, "--mount": _mount, "--gpus": _gpus, "--restart": _restart, "-p": _publish,
    "--ulimit": _ulimits, "-v": _list("HostConfig", "Binds"), "--volume": _list("HostConfig", "Binds"),
    "--network": _one("HostConfig", "NetworkMode"), "--ipc": _one("HostConfig", "IpcMode"),
    "--shm-size": _one("HostConfig", "ShmSize", _bytes), "-w": _one("Config", "WorkingDir"),
    "--label": _pairs("Config", "Labels"), "--cap-add": _list("HostConfig", "CapAdd"),
    "--user": _one("Config", "User"), "--runtime": _one("HostConfig", "Runtime"),
    "--entrypoint": lambda doc, values: doc["Config"].update(Entrypoint=[values[-1]]),
    "--log-opt": lambda doc, values: doc["HostConfig"]["LogConfig"]["Config"].update(
        dict(value.split("=", 1) for value in values)),
    "--log-driver": lambda doc, values: doc["HostConfig"]["LogConfig"].update(Type=values[-1]),
    "--security-opt": _list("HostConfig", "SecurityOpt"),
    "--hostname": _one("Config", "Hostname"),
}  # fmt: skip
SWITCHES: dict[str, Any] = {
    "--rm": lambda doc, values: doc["HostConfig"].update(AutoRemove=True),
    "--init": lambda doc, values: doc["HostConfig"].update(Init=True),
    "--privileged": lambda doc, values: doc["HostConfig"].update(Privileged=True),
    "--read-only": lambda doc, values: doc["HostConfig"].update(ReadonlyRootfs=True),
}
