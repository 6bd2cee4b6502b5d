"""An engine's changed files kept on the docker host, beside its container: mounted over the image's (overlay)
or put in place by a start script (prelude). The container itself is made anew with them.

Owns: that record, what a container gets by it, and ``beside.look``, ``write`` and ``recover``. One journal,
replaced in one step, says what the next start shall have. Refuses: an engine with files changed inside.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import at_rest, disk, docker, prelude, recreate
from .journal import Store, check_lease, new_lease
from .steps import reach
from .wire import AgentError, from_text, operation, to_text, uninterrupted

if TYPE_CHECKING:
    from .docker import Container, Place
    from .recreate import Addition
    from .wire import Client, Request

    Journal = dict[str, Any]

OVERRIDE = "compose.oeactl.yaml"
SEEN = "container.json"  # what was seen inside (containers.keep)


def _store(request: Request) -> Store:
    return Store(request["root"], request.get("state_dir"))


def _parent(store: Store) -> str:
    return os.path.join(store.path, "beside")


def mode(request: Request) -> str | None:
    """How files are kept beside the container, None where none are."""
    told = _store(request).read().get("beside")
    return str(told["mode"]) if told else None


def addition(journal: Journal) -> Addition | None:
    """What the container shall get; None for nothing."""
    told = journal.get("beside")
    if not told or not told["folder"]:
        return None
    digest = os.path.basename(told["folder"])
    if told["mode"] == "overlay":
        mounts = [(source, target) for target, source in prelude.held(told["folder"]).items()]
        return recreate.Addition(digest, mounts, [])
    script = f"{prelude.INSIDE}/{prelude.SCRIPT}"
    return recreate.Addition(digest, [(told["folder"], prelude.INSIDE)], [told["python"], script])


@operation("beside.look")
def look(request: Request, client: Client) -> dict[str, Any]:
    """The record, with what it keeps here. mounted: the container there is was made with just that."""
    store = _store(request)
    journal = store.read()
    found = docker.look(request["container"])
    told, wanted = journal.get("beside"), addition(journal)
    there = recreate.made_with(found)
    return {
        "journal": store.public(journal, data=request["data"]),
        "mode": told and told["mode"],
        "root": told and told["root"],
        "files": {path: _content(path, source) for path, source in _held(journal).items()},
        "covered": list(_held(journal)) if wanted and there == wanted.digest else [],
        "left_over": _left_over(store, journal, there),
        "mounted": there == (wanted.digest if wanted else None),
        "same_image": found is None or told is None or found.image == told["image"],
        "cut_short": _cut_short(request["container"].get("name"), journal, found),
    }


def _cut_short(name: str | None, journal: Journal, found: Container | None) -> bool:
    """Whether a change of containers waits to be gone on with, the owner's to be given back included."""
    told = journal.get("beside")
    if not name or not told:
        return False
    at_rest = found is None or not found.running
    return recreate.cut_short(name, told["original"]) or (at_rest and not journal["layers"])


def _left_over(store: Store, journal: Journal, there: str | None) -> dict[str, str | None]:
    """Files that the container still has otherwise, and that no record is of any more -> their originals."""
    folder = os.path.join(_parent(store), there or "none")
    if not os.path.isdir(folder):
        return {}
    recorded = {record["path"] for record in journal["files"]}
    found = prelude.originals(folder).items()
    return {path: None if data is None else to_text(data) for path, data in found if path not in recorded}


def _held(journal: Journal) -> dict[str, str]:
    told = journal.get("beside")
    return prelude.held(told["folder"]) if told and told["folder"] and os.path.isdir(told["folder"]) else {}


def _content(path: str, source: str) -> str | None:
    try:
        return to_text(disk.read(source))
    except FileNotFoundError:
        return None


@operation("beside.write")
def write(request: Request, client: Client) -> dict[str, Any]:
    """The wire's Written for a Transaction. mode, python, engine: how; originals, owners: by path, as seen
    inside. Nothing of the container changes before its next start, unless it does not run.
    """
    store = _store(request)
    notes: list[str] = []
    with store.locked():
        journal = store.read()
        check_lease(store, journal, request["operation"], request["holder"])
        found = docker.look(request["container"])
        if journal["layers"] != request["layers"] or request["files"]:
            if not journal.get("beside"):
                _begin(journal, request, found)
            with uninterrupted(), disk.explained(store.path):
                _commit(store, journal, request, notes)
        else:
            with disk.explained(store.path):
                journal["lease"] = _lease(journal, request)
                store.save(journal)
        if not (found and found.running) and not journal["layers"]:
            _arrange(store, journal, request["container"])
        _tidy(store, journal, found)
    return {"operation": request["operation"], "journal": store.public(journal), "notes": notes}


def _begin(journal: Journal, request: Request, found: Container | None) -> None:
    """What is known of the container before anything is added to it."""
    if found is None:
        raise docker.missing(request["container"])
    if request["container"].get("name"):
        recreate.refuse_removed(found.name, found.document)
    _refuse_changed_inside(found, os.path.dirname(request["engine"]))
    journal["beside"] = {
        "mode": request["mode"], "image": found.image, "python": request["python"], "root": request["engine"],
        "argv": [found.document["Path"], *found.document["Args"]], "folder": "", "original": None,
    }  # fmt: skip


def _refuse_changed_inside(found: Container, folder: str) -> None:
    """A container made anew would not have them."""
    changed = []
    for line in docker.do(["diff", found.name], timeout_s=120.0).splitlines():
        kind, _, path = line.partition(" ")
        if path.startswith(folder + "/") and not path.endswith((".pyc", "/__pycache__", "/.oeactl-new")):
            changed.append((kind, path))
    if not changed:
        return
    unlike = at_rest.unlike_image(found, [path for kind, path in changed if kind != "D"])
    unlike += [path for kind, path in changed if kind == "D"]
    if unlike:
        raise AgentError(
            "refused",
            f"the engine was changed inside {found.name}, and a container made anew would not have that",
            unlike[0],
            "patch_mode: inplace in hosts.yaml",
            unlike[:20],
        )


def _commit(store: Store, journal: Journal, request: Request, notes: list[str]) -> None:
    """The new files whole and on the disk, then the journal that means them, in one step."""
    old = {record["path"]: record for record in journal["files"]}
    contents = {path: disk.read(source) for path, source in _held(journal).items() if os.path.exists(source)}
    for wanted in request["files"]:
        _check(store, request, wanted, old, contents, notes)
        contents[wanted["path"]] = from_text(wanted["after"])
        old[wanted["path"]] = _record(store, request, wanted, old.get(wanted["path"]))
    touched = {path for layer in request["layers"] for path in layer["edits"]}
    records = [record for path, record in old.items() if path in touched]
    folder = ""
    if records:
        os.makedirs(_parent(store), 0o755, exist_ok=True)
        reach("write beside", _parent(store))
        originals = {record["path"]: store.blob(record["pristine_sha256"]) for record in records}
        folder = prelude.write(_parent(store), records, contents, originals)
    journal.update(layers=request["layers"], files=records, pending=None, lease=_lease(journal, request))
    journal["beside"]["folder"] = folder
    store.save(journal)


def _lease(journal: Journal, request: Request) -> Any:
    if request["lease_s"] is None:
        return None
    return new_lease(
        request["operation"], request["what"], request["holder"], request["lease_s"], journal["lease"]
    )


def _check(
    store: Store,
    request: Request,
    wanted: dict[str, Any],
    records: dict[str, Any],
    contents: dict[str, bytes],
    notes: list[str],
) -> None:
    path = wanted["path"]
    if wanted["after_sha256"] != (disk.sha256(from_text(wanted["after"])) if wanted["after_sha256"] else ""):
        raise AgentError("usage", "the new content does not match its hash", path)
    if path not in records:
        return
    now = disk.sha256(contents[path]) if path in contents else disk.ABSENT
    if now in (wanted["before_sha256"], wanted["after_sha256"]):
        return
    if not (request["force"] and request["kind"] == "revert"):
        details = [f"planned on sha256 {wanted['before_sha256']}", f"it holds now     {now}"]
        raise AgentError("refused", "it does not hold what the change was planned on", path, None, details)
    if path in contents:
        notes.append(f"{path}: the foreign file was kept as {store.keep_foreign(path, contents[path])}")


def _record(store: Store, request: Request, wanted: dict[str, Any], old: Any) -> dict[str, Any]:
    path, pristine = wanted["path"], wanted["pristine_sha256"]
    if old is None and pristine != disk.ABSENT:
        original = from_text(request["originals"][path])
        if disk.sha256(original) != pristine:
            raise AgentError("refused", "its original is not what the change was planned on", path)
        store.keep(original)
    owner = request["owners"].get(path) or {"mode": 0o644, "uid": 0, "gid": 0}
    kept = old or {"folders": [], **{key: owner[key] for key in ("mode", "uid", "gid")}}
    what = {"module": wanted["module"], "path": path, "pristine_sha256": pristine}
    return {**kept, **what, "expected_sha256": wanted["after_sha256"]}


@operation("beside.recover")
def recover(request: Request, client: Client) -> dict[str, Any]:
    """Go on with a change of containers that was cut short; the journal afterwards, ``recovered`` says so."""
    store = _store(request)
    with store.locked():
        journal = store.read()
        found, name = docker.look(request["container"]), request["container"].get("name")
        cut = _cut_short(name, journal, found)
        if not (found and found.running):
            _arrange(store, journal, request["container"])
        elif name:
            recreate.clear(name)
        return store.public(
            journal, recovered="finished a change of containers that was cut short" if cut else None
        )


def arranged(request: Request) -> Place:
    """Make the container that is about to be begun what the record says; how compose is then called."""
    place: Place = request["container"]
    store = _store(request)
    if not store.read().get("beside"):
        return place
    with store.locked():
        journal = store.read()
        place = _arrange(store, journal, place)
        _tidy(store, journal, docker.look(place))
    return place


def _arrange(store: Store, journal: Journal, place: Place) -> Place:
    told, wanted = journal.get("beside"), addition(journal)
    if not told:
        return place

    def keep(original: Any) -> None:
        told["original"] = original
        store.save(journal)
        _note(store, journal, place)

    with disk.explained(store.path):
        if place.get("name"):
            _note(store, journal, place)
            recreate.arrange(place["name"], wanted, told["image"], told["original"], keep)
        elif wanted is not None:
            text = json.dumps(_override(place["service"], wanted, told["argv"]), indent=1)
            disk.write_durably(os.path.join(store.path, OVERRIDE), text.encode() + b"\n")
            place = {**place, "more": [os.path.join(store.path, OVERRIDE)]}
        else:
            disk.remove(os.path.join(store.path, OVERRIDE))
        if wanted is None:
            disk.remove(os.path.join(store.path, SEEN))
            del journal["beside"]
            store.save(journal)
            _note(store, journal, place)
    return place


def _override(service: str, wanted: Addition, argv: list[str]) -> dict[str, Any]:
    """A compose file (JSON is YAML) over the owner's; a ``$`` is doubled, or compose would fill it in."""

    def plain(words: list[str]) -> list[str]:
        return [word.replace("$", "$$") for word in words]

    told: dict[str, Any] = {
        "labels": recreate.labels(wanted),
        "volumes": plain([f"{source}:{target}:ro" for source, target in wanted.mounts]),
    }
    if wanted.before:
        told["entrypoint"] = plain(wanted.before[:1])
        told["command"] = plain([*wanted.before[1:], *argv])
    return {"services": {service: told}}


def refuse_other_image(request: Request, found: Container) -> None:
    """After compose made it: what was mounted over its files was made for another image."""
    told = _store(request).read().get("beside")
    if told and told["folder"] and found.image != told["image"]:
        raise recreate.other_image(found.name, told["image"], found.image)


def tidy(request: Request) -> None:
    """After a container ended, or was made anew by compose."""
    store = _store(request)
    if os.path.isdir(_parent(store)):
        with store.locked():
            _tidy(store, store.read(), docker.look(request["container"]))


def _tidy(store: Store, journal: Journal, found: Container | None) -> None:
    """Drop folders that neither the record nor the container there is means, and backups likewise."""
    told = journal.get("beside")
    needed = {os.path.basename(told["folder"]) if told else "", recreate.made_with(found)}
    records = {record["pristine_sha256"] for record in journal["files"]}
    for parent, wanted in ((_parent(store), needed), (os.path.join(store.path, "blobs"), records)):
        with suppress(OSError):
            for name in os.listdir(parent):
                path = os.path.join(parent, name)
                if name not in wanted:
                    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
            os.rmdir(parent)


def _note(store: Store, journal: Journal, place: Place) -> None:
    """RESTORE.txt: the commands for the day there is no oeactl."""
    told = journal.get("beside")
    path = os.path.join(store.path, "RESTORE.txt")
    if not told:
        disk.remove(path)
        return
    name = place.get("name")
    lines = ["# oeactl keeps changed files of an engine here, for its container. Without them again:"]
    if name and told["original"]:
        aside = recreate.aside_name(name, told["original"]["id"])
        policy = told["original"]["restart"]["Name"] or "no"
        lines += [f"docker stop {name} && docker rm {name}", f"docker rename {aside} {name}"]
        lines += [f"docker update --restart={policy} {name}", f"docker start {name}"]
    elif name:
        lines += ["# (its container is still its owner's own)"]
    else:
        lines += ["docker " + shlex.join([*docker.compose(place), "up", "-d", place["service"]])]
    disk.write_durably(
        path, ("\n".join([*lines, f"rm -f -- {shlex.quote(store.path)}/journal.json"]) + "\n").encode()
    )
