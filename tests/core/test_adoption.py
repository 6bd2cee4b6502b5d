"""What a running server tells becomes an entry; what it does not tell is said."""

from __future__ import annotations

from typing import Any

import pytest

from oeactl.core.adoption import FoundServer, adopt_process
from oeactl.errors import Refused, UsageError


def found(**changes: Any) -> FoundServer:
    fields: dict[str, Any] = {
        "pid": 7,
        "argv": ("python", "-m", "sglang.launch_server", "--model-path", "/m", "--port", "31000"),
        "secret_flags": (),
        "cwd": "/srv",
        "executable": "/usr/bin/python3.11",
        "interpreter": "/v/bin/python",
        "environment": {"PATH": "/bin", "CUDA_HOME": "/c", "SSH_TTY": "x", "OEACTL_SERVER": "m"},
        "base_environment": {"PATH": "/bin", "HOME": "/root"},
        "log": "/srv/out.log",
        "address": "0.0.0.0",
        "port": 31000,
        "keeper": "",
        "parents": ("bash launch.sh",),
        "gpus": 8,
        "age_s": 7200.0,
        "processes": 9,
    }
    return FoundServer(**{**fields, **changes})


def test_all_that_is_there_is_taken_over() -> None:
    adopted = adopt_process(found())
    assert adopted.entry == {
        "engine": {"python": "/v/bin/python"},
        "server": {
            "url": "http://127.0.0.1:31000",
            "cwd": "/srv",
            "gpus": 8,
            "env": {"CUDA_HOME": "/c"},
            "argv": ["-m", "sglang.launch_server", "--model-path", "/m", "--port", "31000"],
            "log": "/srv/out.log",
        },
    }
    assert adopted.unknown == () and adopted.left_out == ("SSH_TTY",) and adopted.model == "/m"
    assert adopted.learned[1] == "begun by bash launch.sh"


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({"address": "10.0.0.5"}, "http://10.0.0.5:31000"),
        ({"address": "fd00::1"}, "http://[fd00::1]:31000"),
        ({"address": "::"}, "http://127.0.0.1:31000"),
        ({"argv": ("python", "x.py", "--ssl-keyfile", "/k")}, "https://127.0.0.1:31000"),
        ({"port": None, "address": None}, "http://127.0.0.1:30000"),
    ],
)
def test_the_url_is_where_it_listens_as_seen_on_the_host(changes: dict[str, Any], url: str) -> None:
    assert adopt_process(found(**changes)).entry["server"]["url"] == url


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"log": None}, "server.log"),
        ({"gpus": None}, "server.gpus"),
        ({"environment": {}}, "server.env"),
        ({"port": None}, "server.url"),
        ({"interpreter": "/usr/bin/python3.11"}, "engine.python"),
    ],
)
def test_what_is_not_known_is_said(changes: dict[str, Any], said: str) -> None:
    (line,) = adopt_process(found(**changes)).unknown
    assert line.startswith(said)


def test_a_unit_becomes_its_manager() -> None:
    server = adopt_process(found(keeper="the systemd unit glm5.service")).entry["server"]
    assert (server["manager"], server["unit"]) == ("systemd", "glm5.service")


def test_a_container_and_an_overwritten_title_are_refused() -> None:
    with pytest.raises(Refused, match="lives in the container 0123"):
        adopt_process(found(keeper="the container 0123"))
    with pytest.raises(UsageError, match="overwritten its command line"):
        adopt_process(found(argv=("sglang::server",)))
    with pytest.raises(UsageError, match="is no Python program"):
        adopt_process(found(executable="/usr/bin/sleep"))
