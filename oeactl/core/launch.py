"""From a host's description and the recipes on it to what is started there.

Owns: reading an engine's argv (model, ranks), what recipes add to a launch, and composing it. Refuses: to
start anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from oeactl.core.host import Launch, Layer
from oeactl.core.inventory import Host
from oeactl.core.recipe_document import LaunchDocument
from oeactl.errors import UsageError

_PLACE = re.compile(r"\{([a-z_][a-z0-9_]*)\}")


def flag(argv: Sequence[str], *names: str) -> str | None:
    """Return the value of the last of ``names`` in argv, as ``--name value`` or ``--name=value``."""
    found = None
    for position, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name not in names:
            continue
        if equals:
            found = value
        elif position + 1 < len(argv):
            found = argv[position + 1]
    return found


def model_of(argv: Sequence[str]) -> str | None:
    """The served model: a folder on the host or a hub id."""
    return flag(argv, "--model-path", "--model")


def ranks_of(argv: Sequence[str]) -> int:
    """How many data-parallel schedulers the server starts: requests are spread over them."""
    text = flag(argv, "--dp", "--dp-size", "--data-parallel-size")
    return int(text) if text and text.isdigit() else 1


def launch_of(host: Host, layers: Sequence[Layer]) -> Launch:
    """Compose what is started on ``host`` with these recipes on it. Raises UsageError without a server."""
    if host.server is None:
        raise UsageError(
            f"{host.name} has no server entry, so there is nothing to start",
            where="hosts.yaml",
            hint=f"add hosts.{host.name}.server",
        )
    server = host.server
    args = [word for layer in layers for word in layer.args]
    env = {name: value for layer in layers for name, value in layer.env.items()}
    return Launch(
        python=host.engine.python or "python3",
        argv=(*server.argv, *args),
        cwd=server.cwd or "/",
        env={**server.env, **env},
        log=server.log,
        url=server.url,
    )


def placeholders(text: str) -> tuple[str, ...]:
    """The parameters that ``{name}`` in an argument or a variable's value stand for."""
    return tuple(_PLACE.findall(text))


def additions(
    launch: LaunchDocument, parameters: Mapping[str, object]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Arguments and environment that a recipe adds, with its parameters' values in them."""

    def filled(text: str) -> str:
        return _PLACE.sub(lambda match: text_of(parameters[match[1]]), text)

    return tuple(map(filled, launch.args)), {name: filled(text) for name, text in launch.env.items()}


def text_of(value: object) -> str:
    """A parameter's value as a word: of ``--set``, of an argument, of a variable."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def launch_fault(host: Host, layer: Layer) -> str | None:
    """Why what a recipe adds to the launch would have no effect on ``host``; None if it would have."""
    return added_fault(host, args=layer.args, env=layer.env)


def added_fault(host: Host, *, args: Sequence[str], env: Mapping[str, str]) -> str | None:
    """Why arguments and variables added to the launch would have no effect; None if they would have."""
    if not (args or env):
        return None
    if host.server is None:
        return "it changes how the server is started, and hosts.yaml describes none"
    if args and host.server.manager == "commands":
        words = " ".join(args)
        return f"it adds {words} to the launch, and this server is begun by a command of its owner's"
    if args and host.server.manager == "systemd" and not host.server.argv:
        words = " ".join(args)
        return f"it adds {words} to the launch, and server.argv does not say what the unit starts"
    if host.server.manager in ("docker", "compose"):
        return "it changes how the server is started, and a container keeps what it was made with"
    return None


def conflict(one: Layer, other: Layer) -> str | None:
    """An argument or a variable that both recipes set: the later would win in silence."""
    same = sorted(flags(one.args) & flags(other.args)) or sorted(one.env.keys() & other.env.keys())
    return same[0] if same else None


def options(argv: Sequence[str]) -> dict[str, str]:
    """Every ``--option`` with its words, '' where it has none; of one that is given twice the last."""
    found: dict[str, list[str]] = {}
    words: list[str] = []
    for word in argv:
        if word.startswith("--") and len(word) > 2:
            name, _, value = word.partition("=")
            words = found[name] = [value] if value else []
        else:
            words.append(word)
    return {name: " ".join(words) for name, words in found.items()}


def flags(args: Sequence[str]) -> set[str]:
    """The options among arguments: ``--tp=8`` is ``--tp``."""
    return {word.partition("=")[0] for word in args if word.startswith("--") and len(word) > 2}
