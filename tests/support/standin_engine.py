"""The containers of the stand-in for docker: made from images, begun, ended, their files private.

STANDIN_DOCKER: a folder.
``images/*.json``: Id, RepoTags, RepoDigests, Config as docker has them, and Folders:
path in the container -> the folder here that an image holds for it. A container's processes are this
machine's, in a mount namespace of their own, where each of those paths is a private copy. What inspect says
of a container made without options is what a real engine said (``docker_inspect_plain.json``).
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.standin_options import DAEMON, SWITCHES, VALUES, Doc, Failure

ROOT = Path(os.environ.get("STANDIN_DOCKER", "/nonexistent"))
PLAIN = Path(__file__).parents[1] / "edges" / "data" / "docker_inspect_plain.json"
AS_ROOT = os.geteuid() == 0


def folder(doc: Doc) -> Path:
    return ROOT / "containers" / str(doc["Id"])


def documents() -> list[Doc]:
    return [json.loads(path.read_text()) for path in (ROOT / "containers").glob("*/document.json")]


def find(name: str) -> Doc | None:
    for doc in documents():
        if doc["Name"] == f"/{name}" or (len(name) >= 12 and doc["Id"].startswith(name)):
            return doc
    print(f"{DAEMON} No such container: {name}", file=sys.stderr)
    return None


def container(name: str) -> Doc:
    found = find(name)
    if found is None:
        raise Failure(f"Error: failed to work on containers: {name}")
    return found


def image(name: str) -> Doc | None:
    for path in (ROOT / "images").glob("*.json"):
        doc: Doc = json.loads(path.read_text())
        plain = name.split("@")[0].rpartition(":")[0] + name[name.find("@") :] if "@" in name else name
        if name in (doc["Id"], *doc["RepoTags"]) or plain in doc["RepoDigests"]:
            return doc
    print(f"{DAEMON} No such image: {name}", file=sys.stderr)
    return None


def show(doc: Doc | None) -> int:
    if doc is None:
        print("[]")
        return 1
    shown = {key: value for key, value in doc.items() if key != "Folders"}
    if "HostConfig" in doc:
        now = state(doc)
        status = "restarting" if now["restarting"] else "running" if now["running"] else "exited"
        shown["RestartCount"] = now["restarts"]
        shown["State"] = {
            **doc["State"], "Status": status, "Running": now["running"] or now["restarting"],
            "Restarting": now["restarting"], "Pid": now["pid"], "ExitCode": now["exit"],
        }  # fmt: skip
    print(json.dumps([shown], indent=4))
    return 0


def state(doc: Doc) -> Doc:
    found: Doc = {}
    with suppress(FileNotFoundError):  # not begun yet, or removed
        found = json.loads((folder(doc) / "state.json").read_text())
    return {"running": False, "pid": 0, "exit": 0, "restarts": 0, "restarting": False, "begin": 0, **found}


def keep(doc: Doc, **changes: Any) -> None:
    write(folder(doc) / "state.json", {**state(doc), **changes})


def write(path: Path, value: Any) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(value))
    temporary.replace(path)


def change(doc: Doc, how: Any) -> None:
    how(doc)
    write(folder(doc) / "document.json", doc)


def make(name: str, given: dict[str, list[str]], of: str, words: list[str]) -> str:
    source = image(of)
    if source is None:
        raise Failure("", 125)
    if any(doc["Name"] == f"/{name}" for doc in documents()):
        raise Failure(f'{DAEMON} Conflict. The container name "/{name}" is already in use')
    (doc,) = copy.deepcopy(json.loads(PLAIN.read_text()))
    own = source["Config"]
    identity = hashlib.sha256(os.urandom(16)).hexdigest()
    doc.update(Id=identity, Name=f"/{name}", Image=source["Id"], Folders=source["Folders"])
    doc["Config"].update(
        Hostname=identity[:12], Image=of, Env=list(own["Env"] or ()), Cmd=own["Cmd"],
        Entrypoint=own["Entrypoint"], WorkingDir=own["WorkingDir"], Labels=dict(own["Labels"] or {}),
    )  # fmt: skip
    for flag, values in given.items():
        (VALUES.get(flag) or SWITCHES[flag])(doc, values)
    if "--entrypoint" in given:
        doc["Config"]["Cmd"] = None
    if words:
        doc["Config"]["Cmd"] = words
    argv = [*(doc["Config"]["Entrypoint"] or ()), *(doc["Config"]["Cmd"] or ())]
    if not argv:
        raise Failure(f"{DAEMON} No command specified")
    doc.update(Path=argv[0], Args=argv[1:])
    doc["Mounts"] = [
        {"Type": "bind", "Source": source, "Destination": target, "RW": writable}
        for source, target, writable in binds(doc)
    ]
    (folder(doc) / "files").mkdir(parents=True)
    for number, kept in enumerate(source["Folders"].values()):
        shutil.copytree(kept, folder(doc) / "files" / str(number), symlinks=True)
    write(folder(doc) / "document.json", doc)
    return identity


def binds(doc: Doc) -> list[tuple[str, str, bool]]:
    """(source, target, writable) of every bind mount."""
    found = []
    for text in doc["HostConfig"]["Binds"] or ():
        source, target, *how = text.split(":")
        found.append((source, target, how != ["ro"]))
    for one in doc["HostConfig"].get("Mounts") or ():
        found.append((one["Source"], one["Target"], not one.get("ReadOnly")))
    return found


def remove(doc: Doc) -> None:
    if state(doc)["running"]:
        raise Failure(f"{DAEMON} You cannot remove a running container {doc['Id']}. Stop the container")
    shutil.rmtree(folder(doc))


def rename(doc: Doc, new: str) -> None:
    if any(other["Name"] == f"/{new}" for other in documents()):
        raise Failure(
            f'{DAEMON} Error when allocating new name: Conflict. The container name "/{new}" is in use'
        )
    change(doc, lambda doc: doc.update(Name=f"/{new}"))


def differences(doc: Doc) -> int:
    for number, (path, kept) in enumerate(doc["Folders"].items()):
        mine = folder(doc) / "files" / str(number)
        for one in sorted(mine.rglob("*")):
            other = Path(kept) / one.relative_to(mine)
            shown = f"{path}/{one.relative_to(mine)}"
            if not other.exists():
                print(f"A {shown}")
            elif one.is_file() and one.read_bytes() != other.read_bytes():
                print(f"C {shown}")
        for one in sorted(Path(kept).rglob("*")):
            if not (mine / one.relative_to(kept)).exists():
                print(f"D {path}/{one.relative_to(kept)}")
    return 0


def inside(doc: Doc) -> str:
    """The shell text that lays the container's files over this machine's, in a namespace of its own."""
    lines, staged = ["set -e"], []
    for number, (source, target, writable) in enumerate(binds(doc)):
        here, there = f"{folder(doc)}/mount-{number}", shlex.quote(target)
        lines.append(f"mkdir -p {here}" if Path(source).is_dir() else f": >{here}")
        lines.append(f"mount --bind {shlex.quote(source)} {here}")  # before a copy hides where it lies
        staged.append(f"mkdir -p {there}" if Path(source).is_dir() else f"[ -e {there} ] || : >{there}")
        staged.append(f"mount --bind {here} {there}")
        staged += [] if writable else [f"mount -o remount,ro,bind {there}"]
    for number, path in enumerate(doc["Folders"]):
        kept = shlex.quote(str(folder(doc) / "files" / str(number)))
        lines.append(f"mount --bind {kept} {shlex.quote(path)}")
    lines += staged
    lines.append(f"cd {shlex.quote(doc['Config']['WorkingDir'] or '/')}")
    return "\n".join([*lines, 'exec "$@"'])


def begin(doc: Doc) -> None:
    if state(doc)["running"]:
        return
    for source, _, _ in binds(doc):
        if not Path(source).exists():
            raise Failure(f"{DAEMON} invalid mount config: bind source path does not exist: {source}")
    log = folder(doc) / "log"
    log.touch()
    keep(doc, restarts=0, begin=log.stat().st_size, pid=0)
    if os.fork() == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        supervise(doc, log)
        os._exit(0)
    limit = time.monotonic() + 20
    while not state(doc)["pid"] and time.monotonic() < limit:
        time.sleep(0.02)


def supervise(doc: Doc, log: Path) -> None:
    restarts = 0
    unshare = [str(shutil.which("unshare")), "-m" if AS_ROOT else "-rm", "sh", "-c", inside(doc), "sh"]
    while True:
        with log.open("ab") as output:
            child = subprocess.Popen(
                [*unshare, doc["Path"], *doc["Args"]],
                env=environment(doc), cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        space = entered(child.pid)
        keep(doc, running=True, restarting=False, pid=child.pid, restarts=restarts)
        code = child.wait()
        sweep(space)
        (doc,) = (one for one in documents() if one["Id"] == doc["Id"])
        stopping = folder(doc) / "stopping"
        again = doc["HostConfig"]["RestartPolicy"]["Name"] == "always" and not stopping.exists()
        keep(doc, running=False, restarting=again, pid=0, exit=code)
        if not again:  # whoever reads that may remove the folder, so nothing is written any more
            if doc["HostConfig"]["AutoRemove"]:
                shutil.rmtree(folder(doc), ignore_errors=True)  # whoever stops it removes a file there too
            return
        time.sleep(0.3)
        if stopping.exists():
            keep(doc, restarting=False)
            return
        restarts += 1


def environment(doc: Doc) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], **dict(one.split("=", 1) for one in doc["Config"]["Env"])}


def namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/mnt").readlink())
    except OSError:
        return ""


def entered(pid: int) -> str:
    """The namespace of a container's first process, once it has one of its own and runs its own program."""
    ours, limit = namespace(os.getpid()), time.monotonic() + 20
    while time.monotonic() < limit:
        with suppress(OSError):
            if (
                namespace(pid) not in ("", ours)
                and b"mount --bind" not in Path(f"/proc/{pid}/cmdline").read_bytes()
            ):
                break
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                break
        time.sleep(0.01)
    return namespace(pid)


def sweep(space: str) -> None:
    """All that is left in a container ends with its first process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and space and namespace(int(entry.name)) == space:
            with suppress(ProcessLookupError):
                os.kill(int(entry.name), signal.SIGKILL)


def end(doc: Doc, seconds: int) -> None:
    stopping = folder(doc) / "stopping"
    stopping.touch()
    limit = time.monotonic() + seconds
    while folder(doc).exists() and ((now := state(doc))["running"] or now["restarting"]):
        if now["pid"]:
            with suppress(ProcessLookupError):
                os.kill(now["pid"], signal.SIGTERM if time.monotonic() < limit else signal.SIGKILL)
        time.sleep(0.1)
    stopping.unlink(missing_ok=True)


def run_inside(doc: Doc, argv: list[str]) -> int:
    pid = state(doc)["pid"]
    if not pid:
        raise Failure(f"{DAEMON} container {doc['Id']} is not running")
    enter = [str(shutil.which("nsenter")), "-t", str(pid), "-m"]
    enter += [] if AS_ROOT else ["-U", "--preserve-credentials"]
    there = ["sh", "-c", 'cd "$0" && exec "$@"', doc["Config"]["WorkingDir"] or "/"]
    return subprocess.call([*enter, *there, *argv], env=environment(doc))


def last_lines(doc: Doc, count: int) -> list[str]:
    log = folder(doc) / "log"
    return log.read_text().splitlines()[-count:] if log.exists() else []


def follow(doc: Doc, first: str) -> int:
    if first:
        print(first, flush=True)
    with (folder(doc) / "log").open() as file:
        file.seek(*((0, os.SEEK_END) if first else (state(doc)["begin"], os.SEEK_SET)))
        while True:
            text = file.read()
            sys.stdout.write(text)
            sys.stdout.flush()
            if not text and (
                not folder(doc).exists() or not (state(doc)["running"] or state(doc)["restarting"])
            ):
                return 0
            time.sleep(0.05)


def place(doc: Doc, path: str) -> Path:
    """Where a path of the container lies on this machine."""
    for source, target, _ in binds(doc):
        if path == target or path.startswith(f"{target}/"):
            return Path(source + path[len(target) :])
    for number, top in enumerate(doc["Folders"]):
        if path == top or path.startswith(f"{top}/"):
            return folder(doc) / "files" / f"{number}{path[len(top) :]}"
    return Path(path)


def copy_out(name: str, path: str) -> int:
    real = place(container(name), path)
    if not real.exists():
        raise Failure(f"{DAEMON} Could not find the file {path} in container {name}")
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        archive.add(real, arcname=Path(path).name)
    return 0


def copy_in(name: str, path: str) -> int:
    real = place(container(name), path)
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
        for member in archive:
            archive.extract(member, real)
    return 0
