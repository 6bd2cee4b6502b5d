"""What is begun for a connection before paramiko is there: used once, left in time, and not by too many."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from oeactl.edges.ssh import approach
from oeactl.edges.ssh.approach import EARLY_AT_ONCE, Approach
from oeactl.edges.ssh.config import Target
from oeactl.errors import Unreachable


@pytest.fixture
def door() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config"
    path.write_text("")
    return str(path)


def approached(door: socket.socket, config: str) -> Approach:
    address, port = door.getsockname()
    return Approach(Target(address=address, port=port, ssh_config=config), {}, 5.0)


def came(door: socket.socket, least: int = 1) -> list[socket.socket]:
    """Who knocks: so many are waited for, and then until nobody does for a moment."""
    found = []
    while True:
        door.settimeout(60.0 if len(found) < least else 0.2)
        try:
            found.append(door.accept()[0])
        except TimeoutError:
            return found


def test_the_connection_that_was_begun_is_the_first_one_used(door: socket.socket, config: str) -> None:
    way = approached(door, config)
    (route,) = way.routes()
    (seen,) = came(door)
    with seen, way.socket(route) as first:
        assert first.getsockname() == seen.getpeername()
        with way.socket(route) as second:
            (other,) = came(door)
            with other:
                assert second.getsockname() == other.getpeername()


def test_one_that_nobody_wants_is_left(door: socket.socket, config: str) -> None:
    way = approached(door, config)
    way.routes()
    (seen,) = came(door)
    way.close()
    with seen:
        assert seen.recv(1) == b""


def test_one_that_comes_after_the_end_is_left_too(door: socket.socket, config: str) -> None:
    way = approached(door, config)
    way.close()
    way.routes()
    for seen in came(door, 0):
        with seen:
            assert seen.recv(1) == b""


def test_one_that_waited_long_is_not_used(
    door: socket.socket, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = approached(door, config)
    (route,) = way.routes()
    (seen,) = came(door)
    monkeypatch.setattr(approach, "EARLY_S", 0.0)
    with seen, way.socket(route) as fresh:
        assert fresh.getsockname() != seen.getpeername()
        assert seen.recv(1) == b""
        for other in came(door):
            other.close()


def test_many_names_of_one_server_do_not_all_knock_at_once(door: socket.socket, config: str) -> None:
    ways = [approached(door, config) for _ in range(EARLY_AT_ONCE + 3)]
    for way in ways:
        way.routes()
    seen = came(door, EARLY_AT_ONCE)
    assert len(seen) == EARLY_AT_ONCE
    for way in ways:
        way.close()
    for one in seen:
        one.close()


def test_a_port_where_nothing_listens_is_told_when_the_connection_is_wanted(config: str) -> None:
    with socket.socket() as taken:  # by us, so that nobody else comes to listen there
        taken.bind(("127.0.0.1", 0))
        (route,) = (way := approached(taken, config)).routes()
        with pytest.raises(Unreachable, match="nothing listens"):
            way.socket(route)
