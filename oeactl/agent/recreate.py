"""A container made anew with its own arguments and something beside them; and its owner's put back.

Owns: the order of steps, so that after a crash at each the next call goes on: the owner's container is
renamed and kept, never removed, and comes back by its own name. Refuses: a container that no options of
docker can make alike, one of another image than the change was made for, and to touch one that runs.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from . import arguments, docker
from .adoption import is_secret
from .steps import reach
from .wire import AgentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .docker import Container

    Doc = dict[str, Any]
    Keep = Callable[[Any], None]

LABEL = "oeactl.files"
ADDED = "oeactl.added"
MAKE_S = 600.0  # docker may have to lay out an image


class Addition(NamedTuple):
    """What a container gets beside its own arguments. digest: names it. mounts: (here, in the container).

    before: words before what it runs by itself; none to leave that alone.
    """

    digest: str
    mounts: list[tuple[str, str]]
    before: list[str]


def made_with(container: Container | None) -> str | None:
    """The digest of what was added to it; None where it is its owner's."""
    found: str | None = ((container and container.document["Config"].get("Labels")) or {}).get(LABEL)
    return found


def spare_name(name: str) -> str:
    return f"{name}.oeactl-new"


def aside_name(name: str, identity: str) -> str:
    return f"{name}.oeactl-{identity[:12]}"


def cut_short(name: str, original: Doc | None) -> bool:
    """Whether a change of containers began and did not end. original: which is kept aside, by the record."""
    if docker.by_name(spare_name(name)) is not None:
        return True
    now = docker.by_name(name)
    return original is not None and (now is None or now.identity == original["id"])


def arrange(name: str, wanted: Addition | None, image: str, original: Doc | None, keep: Keep) -> None:
    """Make ``name`` a container with ``wanted``, or its owner's without.

    image: the id that the change was made for. original: the owner's container that is kept aside, and its
    restart policy. keep: records another value of that, for good, before it is acted on.
    """
    clear(name)
    now = docker.by_name(name)
    if now is not None and now.running:
        raise AgentError("refused", f"the container {name} runs", name, "oeactl stop; then this again")
    if wanted is None:
        _give_back(name, now, original, keep)
    elif made_with(now) != wanted.digest:
        _replace(name, now, wanted, image, original, keep)


def clear(name: str) -> None:
    """Remove what was made and did not get its name."""
    spare = docker.by_name(spare_name(name))
    if spare is not None:
        docker.do(["rm", spare.name])


def _give_back(name: str, now: Container | None, original: Doc | None, keep: Keep) -> None:
    aside = docker.by_name(original["id"]) if original else None
    if aside is None:
        if now is not None and made_with(now) is not None:  # somebody removed the original: one like it
            _make(name, now, None, now.image)
            docker.do(["rm", now.identity])
            docker.do(["rename", spare_name(name), name])
    else:
        assert original is not None
        if now is not None and made_with(now) is not None:
            reach("remove container", name)
            docker.do(["rm", now.identity])
            now = None
        if now is None:
            reach("rename original", name)
            docker.do(["rename", aside.identity, name])
        if now is None or now.identity == aside.identity:
            reach("restore restart policy", name)
            _restart_policy(aside.identity, original["restart"])
    keep(None)


def _replace(
    name: str, now: Container | None, wanted: Addition, image: str, original: Doc | None, keep: Keep
) -> None:
    aside = docker.by_name(original["id"]) if original else None
    owned = now if now is not None and made_with(now) is None else None
    base = owned or aside or now
    if base is None:
        raise AgentError("usage", f"there is no container {name}", name, "make it again, then oeactl revert")
    if base.image != image:
        raise other_image(name, image, base.image)
    restart = base.document["HostConfig"]["RestartPolicy"]
    if original and base.identity == original["id"]:
        restart = original["restart"]
    _make(name, base, wanted, image, restart)
    if owned is not None:
        keep({"id": owned.identity, "restart": restart})
        reach("change restart policy", name)
        _restart_policy(owned.identity, {"Name": "no"})  # or a docker that starts anew would start both
        reach("set aside", name)
        docker.do(["rename", owned.identity, aside_name(name, owned.identity)])
    elif now is not None:
        reach("remove container", name)
        docker.do(["rm", now.identity])
    reach("rename new", name)
    docker.do(["rename", spare_name(name), name])


def other_image(name: str, wanted: str, found: str) -> AgentError:
    return AgentError(
        "refused",
        f"the image of {name} is another one than the change was made for",
        name,
        "oeactl revert, oeactl start, and oeactl patch again",
        [f"made for {wanted}", f"it has   {found}"],
    )


def labels(wanted: Addition) -> dict[str, str]:
    """By which a container tells what was added to it."""
    added = {"before": len(wanted.before), "targets": [target for _, target in wanted.mounts]}
    return {LABEL: wanted.digest, ADDED: json.dumps(added)}


def _restart_policy(identity: str, policy: Doc) -> None:
    count = policy.get("MaximumRetryCount")
    text = f"{policy['Name'] or 'no'}:{count}" if count else policy["Name"] or "no"
    found = docker.by_name(identity)
    if found is not None and found.document["HostConfig"]["RestartPolicy"].get("Name") != policy["Name"]:
        docker.do(["update", f"--restart={text}", identity])


def _make(
    name: str, base: Container, wanted: Addition | None, image: str, restart: Doc | None = None
) -> None:
    """Create one like ``base`` under the spare name, and look whether docker made it alike."""
    document = without(base.document)
    if restart is not None:
        document["HostConfig"]["RestartPolicy"] = restart
    found = docker.image(image)
    if found is None:
        raise AgentError("refused", "docker has no such image any more", image, "docker pull it again")
    called = str(document["Config"]["Image"])
    there = docker.image(called)
    made = arguments.of(document, found, called if there and there["Id"] == image else image)
    flags, command = list(made.flags), made.command
    if wanted is not None:
        flags += [word for key, value in labels(wanted).items() for word in ("--label", f"{key}={value}")]
        for source, target in wanted.mounts:
            flags += ["--mount", f"type=bind,target={target},source={source},readonly"]
        if wanted.before:
            flags = [*_without_entrypoint(flags), "--entrypoint", wanted.before[0]]
            command = [*wanted.before[1:], document["Path"], *document["Args"]]
    spare = spare_name(name)
    reach("create container", spare)
    flags, secrets = _secrets_apart(flags)
    words = ["create", "--pull", "never", "--name", spare, *flags, made.image, *command]
    docker.do(words, {"env": secrets}, timeout_s=MAKE_S)
    created = docker.by_name(spare)
    assert created is not None
    unlike = arguments.differences(document, without(created.document))
    if unlike:
        docker.do(["rm", spare])
        what = f"docker does not make a container like {name} from its own arguments"
        raise AgentError("refused", what, name, "patch_mode: inplace leaves the container as it is", unlike)


def _secrets_apart(flags: list[str]) -> tuple[list[str], dict[str, str]]:
    """``-e NAME`` for a secret, which docker takes from its own environment: no command line shows it."""
    kept, secrets = list(flags), {}
    for at in range(1, len(flags)):
        name, equals, value = flags[at].partition("=")
        if flags[at - 1] == "-e" and equals and is_secret(name):
            kept[at], secrets[name] = name, value
    return kept, secrets


def _without_entrypoint(flags: list[str]) -> list[str]:
    if "--entrypoint" not in flags:
        return flags
    at = flags.index("--entrypoint")
    return flags[:at] + flags[at + 2 :]


def refuse_removed(name: str, document: Doc) -> None:
    """Raise AgentError for a container that its own stop removes."""
    if document["HostConfig"].get("AutoRemove"):
        raise AgentError(
            "refused", f"{name} was made with --rm: its stop removes it", name, "make it without --rm"
        )


def without(document: Doc) -> Doc:
    """What inspect says of a container, without what was added to it."""
    document = copy.deepcopy(document)
    told = document["Config"].get("Labels") or {}
    if LABEL not in told:
        return document
    added = json.loads(told.pop(ADDED))
    told.pop(LABEL)
    if added["before"]:
        document["Path"], *document["Args"] = document["Args"][added["before"] - 1 :]
        document["Config"]["Entrypoint"], document["Config"]["Cmd"] = [document["Path"]], document["Args"]
    targets = set(added["targets"])
    host = document["HostConfig"]
    host["Mounts"] = [one for one in host.get("Mounts") or () if one["Target"] not in targets]
    document["Mounts"] = [one for one in document["Mounts"] if one["Destination"] not in targets]
    return document
