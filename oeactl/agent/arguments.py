"""A container's own arguments: from what ``inspect`` says back to the words of ``docker create``.

Owns: which option makes which part of it, what no option can say, and whether two containers were made alike.
Refuses: to guess; a part that it does not know is named, and two containers that differ in one are not alike.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    Doc = dict[str, Any]

ANONYMOUS = re.compile(r"[0-9a-f]{64}")


class Arguments(NamedTuple):
    """flags, image and command as ``docker create`` wants them. unsaid: what they leave out, a line each."""

    flags: list[str]
    image: str
    command: list[str]
    unsaid: list[str]


def _each(option: str) -> Callable[[Any], list[str]]:
    return lambda values: [word for value in values for word in (option, str(value))]


def _pairs(option: str, sign: str = "=") -> Callable[[Any], list[str]]:
    return lambda values: [
        word
        for name, value in values.items()
        for word in (option, f"{name}{sign}{value}" if value or sign == "=" else name)
    ]


def _value(option: str) -> Callable[[Any], list[str]]:
    return lambda value: [option, str(value)]


def _switch(option: str) -> Callable[[Any], list[str]]:
    return lambda value: [option]


def _restart(policy: Doc) -> list[str]:
    if policy["Name"] in ("", "no"):
        return []
    count = policy.get("MaximumRetryCount")
    return ["--restart", f"{policy['Name']}:{count}" if count else policy["Name"]]


def _ports(bindings: Doc) -> list[str]:
    words = []
    for inner, places in bindings.items():
        for one in places or ():
            address = f"{one['HostIp']}:" if one.get("HostIp") else ""
            words += ["-p", f"{address}{one['HostPort']}:{inner[:-4] if inner.endswith('/tcp') else inner}"]
    return words


def _log(config: Doc) -> list[str]:
    driver = [] if config["Type"] == "json-file" else ["--log-driver", config["Type"]]
    return [*driver, *_pairs("--log-opt")(config.get("Config") or {})]


def _devices(devices: list[Doc]) -> list[str]:
    shown = [f"{one['PathOnHost']}:{one['PathInContainer']}:{one['CgroupPermissions']}" for one in devices]
    return _each("--device")(shown)


def _gpus(requests: list[Doc]) -> list[str] | None:
    words = []
    for one in requests:
        plain = one.get("Capabilities") == [["gpu"]] and not one.get("Options")
        if not plain or one.get("Driver") not in ("", "nvidia", None):
            return None
        if one.get("DeviceIDs"):
            words += ["--gpus", f'"device={",".join(one["DeviceIDs"])}"']
        else:
            words += ["--gpus", "all" if one["Count"] == -1 else str(one["Count"])]
    return words


def _ulimits(limits: list[Doc]) -> list[str]:
    return _each("--ulimit")(f"{one['Name']}={one['Soft']}:{one['Hard']}" for one in limits)


def _mounts(mounts: list[Doc]) -> list[str] | None:
    words = []
    for one in mounts:
        parts = [f"type={one['Type']}", f"target={one['Target']}"]
        parts += [f"source={one['Source']}"] if one.get("Source") else []
        parts += ["readonly"] if one.get("ReadOnly") else []
        more = set(one) - {"Type", "Source", "Target", "ReadOnly"}
        if any(one[key] for key in more) or any("," in part or '"' in part for part in parts):
            return None
        words += ["--mount", ",".join(parts)]
    return words


#: Key of HostConfig -> the words that make it; None where no words do.
HOST: dict[str, Callable[[Any], list[str] | None]] = {
    "Binds": _each("-v"), "LogConfig": _log, "PortBindings": _ports, "RestartPolicy": _restart,
    "AutoRemove": _switch("--rm"), "VolumeDriver": _value("--volume-driver"),
    "VolumesFrom": _each("--volumes-from"), "CapAdd": _each("--cap-add"), "CapDrop": _each("--cap-drop"),
    "Dns": _each("--dns"), "DnsOptions": _each("--dns-option"), "DnsSearch": _each("--dns-search"),
    "ExtraHosts": _each("--add-host"), "GroupAdd": _each("--group-add"), "Links": _each("--link"),
    "OomScoreAdj": _value("--oom-score-adj"), "PidMode": _value("--pid"),
    "Privileged": _switch("--privileged"),
    "PublishAllPorts": _switch("-P"), "ReadonlyRootfs": _switch("--read-only"),
    "SecurityOpt": _each("--security-opt"), "StorageOpt": _pairs("--storage-opt"),
    "Tmpfs": _pairs("--tmpfs", ":"), "UTSMode": _value("--uts"), "UsernsMode": _value("--userns"),
    "Sysctls": _pairs("--sysctl"), "CpuShares": _value("--cpu-shares"), "Memory": _value("--memory"),
    "NanoCpus": lambda value: ["--cpus", f"{value / 1e9:g}"], "CgroupParent": _value("--cgroup-parent"),
    "BlkioWeight": _value("--blkio-weight"), "CpuPeriod": _value("--cpu-period"),
    "CpuQuota": _value("--cpu-quota"), "CpusetCpus": _value("--cpuset-cpus"),
    "CpusetMems": _value("--cpuset-mems"), "Devices": _devices,
    "DeviceCgroupRules": _each("--device-cgroup-rule"), "DeviceRequests": _gpus,
    "MemoryReservation": _value("--memory-reservation"), "MemorySwappiness": _value("--memory-swappiness"),
    "OomKillDisable": _switch("--oom-kill-disable"), "PidsLimit": _value("--pids-limit"),
    "Ulimits": _ulimits, "Init": _switch("--init"), "Mounts": _mounts,
}  # fmt: skip
#: Options without a value.
SWITCHES = (
    "--rm",
    "--privileged",
    "-P",
    "--read-only",
    "--oom-kill-disable",
    "--init",
    "--no-healthcheck",
    "-t",
    "-i",
)
#: What docker has without being told; other values need their words.
USUAL: dict[str, tuple[tuple[Any, ...], Callable[[Any], list[str]]]] = {
    "NetworkMode": (("default", "bridge"), _value("--network")),
    "IpcMode": (("private", "shareable"), _value("--ipc")),
    "ShmSize": ((64 << 20,), _value("--shm-size")),
    "Runtime": (("runc",), _value("--runtime")),
    "CgroupnsMode": (("host", "private"), _value("--cgroupns")),
}
#: Follows from other parts, or is of one creation alone.
DERIVED = (
    "ContainerIDFile",
    "ConsoleSize",
    "MaskedPaths",
    "ReadonlyPaths",
    "MemorySwap",
    "Cgroup",
    "Isolation",
)


def of(document: Doc, image: Doc, name: str) -> Arguments:
    """The arguments that make a container like this one. image: its own; name: what to call that."""
    flags: list[str] = []
    unsaid: list[str] = []
    host = document["HostConfig"]
    for key, value in host.items():
        if key in DERIVED or _empty(value):
            continue
        words = _host_words(key, value)
        if words is None:
            unsaid.append(f"HostConfig.{key}: no option was found for {json.dumps(value)[:200]}")
        else:
            flags += words
    swap = host.get("MemorySwap") or 0
    if swap and swap != 2 * (host.get("Memory") or 0):
        flags += ["--memory-swap", str(swap)]
    flags += _volumes(document, unsaid)
    flags += _networks(document, unsaid)
    flags += _config(document, image["Config"], unsaid)
    entrypoint, command = _process(document["Config"], image["Config"])
    return Arguments([*flags, *entrypoint], name, command, unsaid)


def _host_words(key: str, value: Any) -> list[str] | None:
    if key in USUAL:
        usual, words = USUAL[key]
        return [] if value in usual else words(value)
    known = HOST.get(key)
    return known(value) if known else None


def _volumes(document: Doc, unsaid: list[str]) -> list[str]:
    """Volumes without a name of their owner's: the same ones, so that what is in them is not left behind."""
    words = []
    named = {str(bind).split(":")[1] for bind in document["HostConfig"].get("Binds") or () if ":" in bind}
    for one in document.get("Mounts") or ():
        if one["Type"] == "volume" and one["Destination"] not in named and ANONYMOUS.fullmatch(one["Name"]):
            words += ["-v", f"{one['Name']}:{one['Destination']}" + ("" if one.get("RW", True) else ":ro")]
            unsaid.append(
                f"{one['Destination']}: a volume without a name; another container shares it by its id"
            )
    return words


def _networks(document: Doc, unsaid: list[str]) -> list[str]:
    words = []
    mode, short = document["HostConfig"]["NetworkMode"], document["Id"][:12]
    for name, one in (document["NetworkSettings"].get("Networks") or {}).items():
        if name != mode and (name, mode) not in (("bridge", "default"), ("default", "bridge")):
            unsaid.append(f"the network {name}: it was joined after the container was made")
            continue
        aliases = [alias for alias in (one.get("Aliases") or ()) if alias != short]
        words += [word for alias in aliases for word in ("--network-alias", alias)]
        fixed = one.get("IPAMConfig") or {}
        words += ["--ip", fixed["IPv4Address"]] if fixed.get("IPv4Address") else []
        words += ["--ip6", fixed["IPv6Address"]] if fixed.get("IPv6Address") else []
    return words


def _config(document: Doc, image: Doc, unsaid: list[str]) -> list[str]:
    config = document["Config"]
    words = []
    known = set(image.get("Env") or ())
    words += _each("-e")(one for one in config.get("Env") or () if one not in known)
    theirs = image.get("Labels") or {}
    labels = {
        name: value for name, value in (config.get("Labels") or {}).items() if theirs.get(name) != value
    }
    words += _pairs("--label")(labels)
    for key, option in {"User": "--user", "WorkingDir": "-w", "StopSignal": "--stop-signal",
                        "StopTimeout": "--stop-timeout", "Domainname": "--domainname"}.items():  # fmt: skip
        if config.get(key) and config[key] != image.get(key):
            words += [option, str(config[key])]
    words += ["-t"] if config.get("Tty") else []
    words += ["-i"] if config.get("OpenStdin") else []
    mode = document["HostConfig"]["NetworkMode"]
    if config.get("Hostname") not in ("", document["Id"][:12]) and not mode.startswith(
        ("host", "container:")
    ):
        words += ["--hostname", config["Hostname"]]
    exposed = {*(config.get("ExposedPorts") or ())} - {*(image.get("ExposedPorts") or ())}
    words += _each("--expose")(sorted(exposed - {*(document["HostConfig"].get("PortBindings") or ())}))
    return words + _health(config.get("Healthcheck"), image.get("Healthcheck"), unsaid)


def _health(check: Doc | None, theirs: Doc | None, unsaid: list[str]) -> list[str]:
    if not check or check == theirs:
        return []
    kind, *test = check.get("Test") or [""]
    if kind == "NONE":
        return ["--no-healthcheck"]
    if kind == "CMD":
        unsaid.append("Config.Healthcheck: its command is a list of words, which no option takes")
        return []
    words = ["--health-cmd", test[0]] if test else []
    for key, option in {"Interval": "--health-interval", "Timeout": "--health-timeout",
                        "StartPeriod": "--health-start-period"}.items():  # fmt: skip
        words += [option, f"{check[key]}ns"] if check.get(key) else []
    return words + (["--health-retries", str(check["Retries"])] if check.get("Retries") else [])


def _process(config: Doc, image: Doc) -> tuple[list[str], list[str]]:
    """(the option for another entrypoint, the command)."""
    entrypoint, command = config.get("Entrypoint") or [], config.get("Cmd") or []
    if entrypoint == (image.get("Entrypoint") or []):
        return [], ([] if command == (image.get("Cmd") or []) else command)
    first, *rest = entrypoint or [""]
    return ["--entrypoint", first], [*rest, *command]


def differences(one: Doc, other: Doc) -> list[str]:
    """In what two containers were not made alike, a line each; nothing where they were.

    Name, id, times and state do not count, nor does the order of lists.
    """
    found = []
    for where, old, new in (
        ("", _whole(one), _whole(other)),
        ("HostConfig.", one["HostConfig"], other["HostConfig"]),
        ("Config.", one["Config"], other["Config"]),
    ):
        for key in sorted({*old, *new} - {*_LEFT_OUT}):
            if _normal(key, old.get(key)) != _normal(key, new.get(key)):
                found.append(
                    f"{where}{key}: {json.dumps(old.get(key))[:120]} -> {json.dumps(new.get(key))[:120]}"
                )
    return found


_LEFT_OUT = (
    "ContainerIDFile", "ConsoleSize", "Hostname", "Image", "Entrypoint", "Cmd", "Volumes", "OnBuild",
    "AttachStdin", "AttachStdout", "AttachStderr", "StdinOnce", "Binds", "Mounts",
)  # fmt: skip


def _whole(document: Doc) -> Doc:
    """What stands beside Config and HostConfig, or is said better there than in them."""
    mounts = [
        [one["Type"], one.get("Name") or one.get("Source"), one["Destination"], one.get("RW", True)]
        for one in document.get("Mounts") or ()
    ]
    networks = document["NetworkSettings"].get("Networks") or {}
    return {
        "the image": document["Image"],
        "what runs": [document["Path"], *document["Args"]],
        "the mounts": sorted(mounts),
        "the networks": sorted("bridge" if name == "default" else name for name in networks),
    }


def _normal(key: str, value: Any) -> str:
    if _empty(value):
        return ""
    if key == "NetworkMode" and value == "default":
        value = "bridge"
    if isinstance(value, list) and key != "what runs":
        value = sorted({json.dumps(one, sort_keys=True) for one in value})
    return json.dumps(value, sort_keys=True)


def _empty(value: Any) -> bool:
    return value in (None, "", 0, -1, False) or value == [] or value == {}
