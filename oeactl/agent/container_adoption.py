"""A container that is there and that nobody recorded: all that ``docker inspect`` tells of how it was made.

Owns: ``container.adopt`` (read only). Refuses: to send the value of a variable, flag or label whose name says
that it is a secret.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from . import arguments, docker, process
from .adoption import is_secret, secret_flags
from .wire import AgentError, operation

if TYPE_CHECKING:
    from .docker import Container
    from .wire import Client, Request

COMPOSE = "com.docker.compose."
REFERENCE = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)(:?[-?+][^}]*)?\}|\$([A-Za-z_]\w*)")
AUTHORITY = ("authorization", "bearer")


@operation("container.adopt")
def adopt(request: Request, client: Client) -> dict[str, Any]:
    """The wire's FoundContainer of the one called ``name``, or of a service of the compose ``file``."""
    if request.get("file"):
        found = _of_compose(request["file"], request.get("service"))
    else:
        found = docker.inspect({"name": request["name"]})
    document = found.document
    image = docker.image(found.image)
    if image is None:
        raise AgentError("refused", "docker does not tell of its image", found.image)
    words = [document["Path"], *document["Args"]]
    name = _image_name(document, image)
    flags, secrets, unsaid = _flags(arguments.of(document, image, name), document)
    command = arguments.of(document, image, name).command
    return {
        "name": found.name,
        "identity": found.identity[:12],
        "running": found.running,
        "image": document["Config"]["Image"],
        "digest": next(iter(image.get("RepoDigests") or ()), ""),
        "run": [*flags, name, *process.without_secrets(command)],
        "argv": process.without_secrets(words),
        "secret_flags": secret_flags(words),
        "secrets": secrets,
        "unsaid": unsaid,
        "network": document["HostConfig"]["NetworkMode"],
        "ports": _ports(document),
        "gpus": _gpus(document),
        "removed": bool(document["HostConfig"].get("AutoRemove")),
        "compose": _compose(document),
    }


def _image_name(document: dict[str, Any], image: dict[str, Any]) -> str:
    """With its digest where it has one: a name alone may mean another image tomorrow."""
    name = str(document["Config"]["Image"])
    repository = re.sub(r":[^/:]+$", "", name)
    for digest in image.get("RepoDigests") or ():
        if digest.partition("@")[0] == repository and "@" not in name:
            return f"{name}@{digest.partition('@')[2]}"
    return name


def _flags(made: arguments.Arguments, document: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """(the options, secrets left to docker's own variables, what is left out)."""
    kept: list[str] = []
    secrets: list[str] = []
    unsaid = list(made.unsaid)
    words = iter(made.flags)
    for option in words:
        if not option.startswith("-") or option in arguments.SWITCHES:
            kept.append(option)
            continue
        value = next(words)
        name, equals, _ = value.partition("=")
        if option == "-e" and equals and is_secret(name):
            kept += ["-e", name]
            secrets.append(name)
        elif (option in ("--label", "--log-opt") and is_secret(name)) or (
            option == "--health-cmd" and any(word in value.lower() for word in AUTHORITY)
        ):
            unsaid.append(f"{option} {name if equals else ''}: it looks like a secret, and is not copied")
        elif option == "--label" and name.startswith(COMPOSE):
            continue
        elif option == "-v" and arguments.ANONYMOUS.fullmatch(value.partition(":")[0]):
            kept += ["-v", value.partition(":")[2].partition(":")[0]]
        else:
            kept += [option, value]
    return kept, secrets, unsaid


def _ports(document: dict[str, Any]) -> dict[str, str]:
    """Port in the container -> where it is published, ``address:port`` as seen on the docker host."""
    found = {}
    for inner, places in (document["HostConfig"].get("PortBindings") or {}).items():
        for one in places or ():
            address = one.get("HostIp") or "127.0.0.1"
            found[inner.partition("/")[0]] = (
                f"{'127.0.0.1' if address == '0.0.0.0' else address}:{one['HostPort']}"
            )
    return found


def _gpus(document: dict[str, Any]) -> int | None:
    """How many it was given; None for all, or by another way."""
    for one in document["HostConfig"].get("DeviceRequests") or ():
        ids = one.get("DeviceIDs") or ()
        if ids or one["Count"] > 0:
            return len(ids) or int(one["Count"])
    return None


def _compose(document: dict[str, Any]) -> dict[str, Any] | None:
    """Whose service it is, and the variables that the files leave to whoever runs compose."""
    labels = document["Config"].get("Labels") or {}
    if f"{COMPOSE}service" not in labels:
        return None
    folder = labels.get(f"{COMPOSE}project.working_dir", "/")
    files = [
        os.path.join(folder, one)
        for one in labels.get(f"{COMPOSE}project.config_files", "").split(",")
        if one
    ]
    open_names: list[str] = []
    for path in files:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise AgentError("refused", f"it cannot be read: {error.strerror}", path) from error
        for match in REFERENCE.finditer(text):
            name, default = match[1] or match[3], match[2] or ""
            if name and not default.lstrip(":").startswith(("-", "+")):
                open_names.append(name)
    known = _dot_env(folder)
    return {
        "files": files,
        "project": labels.get(f"{COMPOSE}project", ""),
        "service": labels[f"{COMPOSE}service"],
        "variables": [name for name in dict.fromkeys(open_names) if name not in known],
        "environment_files": labels.get(f"{COMPOSE}project.environment_file", ""),
    }


def _dot_env(folder: str) -> set[str]:
    """The variables that compose finds by itself, in ``.env`` beside its file."""
    try:
        with open(os.path.join(folder, ".env"), encoding="utf-8") as file:
            return {line.partition("=")[0].strip() for line in file if "=" in line}
    except OSError:
        return set()


def _of_compose(file: str, service: str | None) -> Container:
    """The container of a service that was begun from ``file``: the labels tell, compose is not asked."""
    there = docker.do(["ps", "-a", "-q", "--no-trunc", "--filter", f"label={COMPOSE}service"]).split()
    real = os.path.realpath(file)
    if not os.path.isfile(real):
        raise AgentError("usage", "there is no such file on this host", file)
    found = {}
    for identity in there:
        one = docker.by_name(identity)
        told = _compose(one.document) if one else None
        if one and told and real in map(os.path.realpath, told["files"]):
            found[told["service"]] = one
    if service is None and len(found) > 1:
        engines = [name for name, one in found.items() if "sglang" in " ".join(one.document["Args"])]
        service = engines[0] if len(engines) == 1 else None
        if service is None:
            raise AgentError(
                "usage", f"it has several services: {', '.join(sorted(found))}", file, "--service NAME"
            )
    chosen = next(iter(found), "") if service is None else service
    if chosen not in found:
        what = f"no container was made from it{f' for the service {service}' if service else ''}"
        hint = f"docker compose -f {file} up --no-start {service or 'SERVICE'}; then this again"
        raise AgentError("usage", what, file, hint)
    return found[chosen]
