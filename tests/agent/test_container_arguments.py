"""From what inspect says of a container back to the words that make one like it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from oeactl.agent import arguments

DATA = Path(__file__).parents[1] / "edges" / "data"
IMAGE: dict[str, Any] = {"Config": {"Env": ["PATH=/usr/bin:/bin", "IMG=1"], "Cmd": None, "Entrypoint": None}}
#: How the recorded container was made, by a real engine (20.10).
GIVEN = """
--network host --ipc host --ulimit memlock=-1:-1 --ulimit stack=67108864:67108864 -v /srv:/data:ro
-v anon:/vol --mount type=bind,target=/m,source=/tmp,readonly -e HF_TOKEN=hf_x -e A=b -w /srv --restart always
--gpus "device=0,1" --label owner=me --cap-add CAP_SYS_PTRACE --device /dev/null:/dev/null:rwm --group-add 44
--add-host a:1.2.3.4 --user 0:0 --init --security-opt seccomp=unconfined --privileged --cpus 2 --cpuset-cpus 0
--tmpfs /scratch:size=1m --log-opt max-size=10m --stop-timeout 30 --health-cmd true --entrypoint python3
--shm-size 34359738368 --memory 1073741824 --security-opt label=disable
"""


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"docker_inspect_{name}.json").read_text())[0]
    return found


def pairs(words: list[str]) -> set[tuple[str, ...]]:
    """Each option with its value."""
    found, rest = set(), list(words)
    while rest:
        option = rest.pop(0)
        found.add((option,) if option in arguments.SWITCHES else (option, rest.pop(0)))
    return found


def test_a_container_made_with_many_options_tells_them_all() -> None:
    made = arguments.of(recorded("rich"), IMAGE, "tiny:1")
    volume = next(one["Name"] for one in recorded("rich")["Mounts"] if one["Destination"] == "/anon2")
    assert pairs(made.flags) == pairs(GIVEN.split()) | {("-v", f"{volume}:/anon2")}
    assert made.command == ["-m", "http.server", "--api-key", "sk", "--port", "5"]
    assert made.image == "tiny:1" and len(made.unsaid) == 1 and "/anon2" in made.unsaid[0]


def test_one_made_without_options_needs_none() -> None:
    assert arguments.of(recorded("plain"), IMAGE, "tiny:1") == ([], "tiny:1", ["sleep", "5"], [])


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("HostConfig", "Privileged", True),
        ("HostConfig", "ShmSize", 1 << 30),
        ("HostConfig", "NewInAnotherDocker", "x"),
        ("Config", "Env", ["PATH=/usr/bin:/bin", "IMG=1", "A=b"]),
        ("Config", "User", "1000"),
    ],
)
def test_another_container_is_told_apart_by_any_part(section: str, key: str, value: Any) -> None:
    one = recorded("plain")
    other = copy.deepcopy(one)
    other[section][key] = value
    (line,) = arguments.differences(one, other)
    assert line.startswith(f"{section}.{key}: ")


def test_the_same_in_another_order_or_by_another_name_is_alike() -> None:
    one, other = recorded("rich"), recorded("rich")
    other["Config"]["Env"].reverse()
    other["Config"]["Hostname"] = other["Name"] = "other"
    other["HostConfig"]["CapDrop"] = []
    assert arguments.differences(one, other) == []
    other["Args"] = ["-m", "else"]
    assert arguments.differences(one, other)[0].startswith("what runs: ")


def test_a_part_that_no_option_makes_is_named() -> None:
    one = recorded("plain")
    one["HostConfig"]["BlkioDeviceReadBps"] = [{"Path": "/dev/sda", "Rate": 1}]
    one["HostConfig"]["DeviceRequests"] = [{"Driver": "", "Count": -1, "Capabilities": [["gpu", "utility"]]}]
    one["NetworkSettings"]["Networks"]["other"] = {}
    said = arguments.of(one, IMAGE, "tiny:1").unsaid
    assert {line.partition(":")[0] for line in said} == {
        "HostConfig.DeviceRequests", "HostConfig.BlkioDeviceReadBps", "the network other",
    }  # fmt: skip
