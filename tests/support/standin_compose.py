"""``docker compose`` of the stand-in: a service of its files is a container.

Owns: reading and merging the files, the labels, ps, stop, up (anew where what they say changed). Refuses: any
other argv, and keys of a service that it does not know.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from tests.support import standin_engine as docker

KNOWN = (
    "image", "container_name", "command", "entrypoint", "environment", "volumes", "network_mode", "restart",
    "shm_size", "ipc", "labels", "working_dir",
)  # fmt: skip


def compose(words: list[str]) -> int:
    files, project = [], None
    while words[:1] == ["-f"] or words[:1] == ["-p"]:
        if words[0] == "-f":
            files.append(words[1])
        else:
            project = words[1]
        words = words[2:]
    name, services = read(files)
    project = project or name or Path(files[0]).parent.name.lower()
    match words:
        case ["ps", "-a", "-q", service] if known(services, service):
            found = existing(project, service)
            print(found["Id"]) if found else None
        case ["up", "-d", service] if known(services, service):
            up(project, service, services[service], files, anew=True)
        case ["up", "-d", "--no-recreate", service] if known(services, service):
            up(project, service, services[service], files, anew=False)
        case ["stop", "-t", seconds, service] if known(services, service) and seconds.isdigit():
            found = existing(project, service)
            if found:
                docker.end(found, int(seconds))
        case _:
            raise docker.Failure(f"unknown docker command: compose {words}", 16)
    return 0


def known(services: dict[str, Any], service: str) -> bool:
    if service not in services:
        raise docker.Failure(f"no such service: {service}")
    return True


def read(files: list[str]) -> tuple[str | None, dict[str, Any]]:
    """(the project's name, its services): later files over earlier ones, key by key as compose does."""
    name, services = None, {}
    for file in files:
        try:
            text = Path(file).read_text()
        except FileNotFoundError:
            raise docker.Failure(f"open {file}: no such file or directory", 14) from None
        document = yaml.safe_load(interpolated(text))
        name = document.get("name", name)
        for service, keys in document["services"].items():
            unknown = set(keys) - set(KNOWN)
            if unknown:
                raise docker.Failure(
                    f"services.{service} additional properties {sorted(unknown)} not allowed", 15
                )
            services[service] = merged(services.get(service, {}), keys)
    return name, services


def interpolated(text: str) -> str:
    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name, needed = match[1], match[2]
        if needed is not None and name not in os.environ:
            raise docker.Failure(f"required variable {name} is missing a value: {needed}", 15)
        return os.environ.get(name, "")

    return re.sub(r"\$\$|\$\{(\w+)(?::\?([^}]*))?\}", value, text)


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    result = {**old, **new}
    result["environment"] = {**pairs(old.get("environment")), **pairs(new.get("environment"))}
    volumes = {str(one).split(":")[1]: one for one in (*old.get("volumes", ()), *new.get("volumes", ()))}
    result["volumes"] = list(volumes.values())
    return result


def pairs(given: Any) -> dict[str, Any]:
    if isinstance(given, list):
        return {one.partition("=")[0]: one.partition("=")[2] if "=" in one else None for one in given}
    return dict(given or {})


def existing(project: str, service: str) -> docker.Doc | None:
    for doc in docker.documents():
        labels = doc["Config"]["Labels"]
        wanted = (labels.get("com.docker.compose.project"), labels.get("com.docker.compose.service"))
        if wanted == (project, service):
            return doc
    return None


def up(project: str, service: str, keys: dict[str, Any], files: list[str], *, anew: bool) -> None:
    digest = hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()
    found = existing(project, service)
    if found and anew and found["Config"]["Labels"]["com.docker.compose.config-hash"] != digest:
        docker.end(found, 10)
        with suppress(FileNotFoundError):
            docker.remove(found)
        found = None
    if found is None:
        name = keys.get("container_name") or f"{project}-{service}-1"
        docker.make(name, given(keys, {
            "project": project, "service": service, "config-hash": digest, "oneoff": "False",
            "container-number": "1", "project.config_files": ",".join(files),
            "project.working_dir": str(Path(files[0]).parent),
        }), keys["image"], words(keys.get("command")))  # fmt: skip
    docker.begin(docker.container(keys.get("container_name") or f"{project}-{service}-1"))


def given(keys: dict[str, Any], labels: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {
        "--label": [f"com.docker.compose.{name}={value}" for name, value in labels.items()]
        + [f"{name}={value}" for name, value in pairs(keys.get("labels")).items()],
        "-v": [str(one) for one in keys["volumes"]],
        "-e": [
            name if value is None else f"{name}={value}" for name, value in pairs(keys["environment"]).items()
        ],
    }
    for key, flag in {"network_mode": "--network", "restart": "--restart", "shm_size": "--shm-size",
                      "ipc": "--ipc", "working_dir": "-w"}.items():  # fmt: skip
        if key in keys:
            found[flag] = [str(keys[key])]
    if "entrypoint" in keys:
        first, *rest = words(keys["entrypoint"])
        found["--entrypoint"] = [first]
        assert not rest, "the stand-in takes an entrypoint of one word"
    return {flag: values for flag, values in found.items() if values}


def words(given: Any) -> list[str]:
    if isinstance(given, str):
        return given.split()
    return [str(word) for word in given or ()]
