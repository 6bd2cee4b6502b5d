"""From a container that is there to its entry in hosts.yaml: by name with docker's words, or as a service.

Owns: what is taken over, and what could not be learned. Refuses: to guess. The value of a secret stays on the
host: it becomes ``${NAME}``, a variable of this machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from oeactl.core.adoption import DEFAULT_PORT, Adopted, secret_words
from oeactl.core.host import Value
from oeactl.core.launch import flag, model_of
from oeactl.core.launch_script import adopt_script
from oeactl.core.redact import is_secret_name
from oeactl.errors import UsageError

_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_SHELLS = ("sh", "bash", "dash", "/bin/sh", "/bin/bash", "/usr/bin/bash")


class ComposeService(Value, frozen=True, kw_only=True):
    """Where a container came from. variables: what the files leave open; environment_files: given with
    ``--env-file``, "" for none."""

    files: tuple[str, ...]
    project: str
    service: str
    variables: tuple[str, ...]
    environment_files: str = ""


class FoundContainer(Value, frozen=True, kw_only=True):
    """A container as ``docker inspect`` tells. argv: all that runs in it, secrets replaced.

    run: the words of ``docker run`` that make one like it, secrets replaced or left to docker's own variables
    (secrets). unsaid: what they leave out. ports: in the container -> address:port on the docker host. gpus:
    None for all, or where it is not known. removed: docker removes it when it ends (``--rm``).
    """

    name: str
    identity: str
    running: bool
    image: str
    digest: str
    run: tuple[str, ...]
    argv: tuple[str, ...]
    secret_flags: tuple[str, ...]
    secrets: tuple[str, ...]
    unsaid: tuple[str, ...]
    network: str
    ports: dict[str, str]
    gpus: int | None
    removed: bool
    compose: ComposeService | None


def adopt_container(found: FoundContainer) -> Adopted:
    """The entry of a container, running or not. Raises UsageError where no Python program runs in it."""
    unknown: list[str] = []
    python, argv = _engine(found, unknown)
    argv, flags = secret_words(argv, found.secret_flags)
    url = _url(found, argv, unknown)
    server: dict[str, Any]
    if found.compose is not None:
        server, secrets = _service(found.compose, unknown)
    else:
        run, _ = secret_words(found.run, found.secret_flags)
        server = {"manager": "docker", "container": found.name, "run": list(run)}
        secrets = found.secrets
        if found.secrets:
            server["env"] = {name: f"${{{name}}}" for name in found.secrets}
        unknown += found.unsaid
        if not found.digest:
            unknown.append(
                f"server.run: {found.image} has no digest (it was built here), so its name is all there is"
            )
    server["url"] = url
    if found.gpus:
        server["gpus"] = found.gpus
    else:
        unknown.append("server.gpus: not a number in its arguments; tok/s per GPU are not shown")
    server["argv"] = list(argv)
    if "--api-key" in flags:
        server["api_key_env"] = flags["--api-key"]
    return Adopted(
        entry={"engine": {"python": python}, "server": server},
        learned=_learned(found),
        unknown=tuple(unknown),
        secrets=tuple(dict.fromkeys((*flags.values(), *secrets))),
        model=model_of(argv),
    )


def _engine(found: FoundContainer, unknown: list[str]) -> tuple[str, tuple[str, ...]]:
    """(the interpreter, as the container calls it; what it is given)."""
    words = found.argv
    if words[0] in _SHELLS and len(words) > 2 and words[1] in ("-c", "-lc", "-ec"):
        script = adopt_script(words[2], f"the command of {found.name}")
        unknown.append(
            "server.argv: read from a shell's text; what that does before the engine is not followed"
        )
        unknown += [line for line in script.unknown if not line.startswith("server.log")]
        return script.entry["engine"]["python"], tuple(script.entry["server"]["argv"])
    for at, word in enumerate(words):
        if _PYTHON.fullmatch(word) and at + 1 < len(words):
            if at:
                unknown.append(f"server.argv: what {words[0]} does before the engine is not followed")
            return word, words[at + 1 :]
    raise UsageError(
        f"no Python program was found in what {found.name} runs, so it is not known how its engine is begun",
        where=" ".join(words)[:120],
        hint="write its entry by hand: manager: docker, container, engine.python (docs/containers.md)",
    )


def _service(compose: ComposeService, unknown: list[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """(the keys of the manager, names of secrets)."""
    server: dict[str, Any] = {"manager": "compose", "compose": list(compose.files)}
    if compose.project:
        server["project"] = compose.project
    server["service"] = compose.service
    if compose.variables:
        server["env"] = {name: f"${{{name}}}" for name in compose.variables}
        plain = [name for name in compose.variables if not is_secret_name(name)]
        if plain:
            unknown.append(
                f"server.env: the compose file leaves {', '.join(plain)} open; set them here as they were"
            )
    if compose.environment_files:
        unknown.append(f"server.compose: it was begun with --env-file {compose.environment_files}")
    return server, compose.variables


def _url(found: FoundContainer, argv: Sequence[str], unknown: list[str]) -> str:
    scheme = "https" if any(word.startswith("--ssl-keyfile") for word in argv) else "http"
    port = flag(argv, "--port") or str(DEFAULT_PORT)
    if found.network == "host":
        return f"{scheme}://127.0.0.1:{port}"
    if port in found.ports:
        return f"{scheme}://{found.ports[port]}"
    unknown.append(
        f"server.url: port {port} of the container is published nowhere; write where the host reaches it"
    )
    return f"{scheme}://127.0.0.1:{port}"


def _learned(found: FoundContainer) -> tuple[str, ...]:
    state = "runs" if found.running else "does not run"
    lines = [f"the container {found.name} ({found.identity}) {state}: {' '.join(found.argv)[:300]}"]
    lines.append(f"image {found.image}{f', {found.digest}' if found.digest else ''}")
    if found.compose is not None:
        lines.append(f"made by compose from {', '.join(found.compose.files)}")
    if found.removed:
        lines.append(
            "docker removes it when it ends (--rm), and a patch inside with it; server.run makes it anew"
        )
    return tuple(lines)
