"""What holds for every test: a Ctrl-C reaches the commands that it is sent to, the record of patched hosts is
not the one of whoever runs the tests, and files stay together.

A run in the background of a script is begun with SIGINT and SIGHUP ignored, and hands that on to every child.
Where several processes share the tests (``-n``), each file is one's, and the tests on a real engine are the
last and all one's: they take the machine for themselves, and some measure.
"""

from __future__ import annotations

import os
import signal

import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_on_an_engine)
    for item in items:
        item.add_marker(pytest.mark.xdist_group("engine" if _on_an_engine(item) else item.location[0]))


def _on_an_engine(item: pytest.Item) -> bool:
    return item.get_closest_marker("engine") is not None


@pytest.fixture(scope="session", autouse=True)
def _record(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("record"))
