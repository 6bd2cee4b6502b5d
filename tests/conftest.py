"""What holds for every test: a Ctrl-C reaches the commands that it is sent to, the record of patched hosts is
not the one of whoever runs the tests, nobody asks for colours in what is shown, and where several processes
share them (``-n``), who gets which.

A run in the background of a script is begun with SIGINT and SIGHUP ignored, and hands that on to every child.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("loaded", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("loaded")  # a machine that others use too is no fault of what is tested
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):  # rich takes any file for a terminal then
    os.environ.pop(name, None)


@pytest.fixture(scope="session", autouse=True)
def _record(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("record"))


def _unit(nodeid: str) -> str:
    """What one process gets as a whole: a file, or all that measure on a real engine, one after the other."""
    file = nodeid.partition("::")[0]
    return "alone" if "/e2e/" in file else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the engine takes longest and comes first; what measures it comes last, in quiet."""

    def turn(item: pytest.Item) -> int:
        alone = _unit(item.nodeid) == "alone"
        return 2 if alone else 0 if item.get_closest_marker("engine") else 1

    items.sort(key=turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByUnit(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _unit(nodeid)

    return ByUnit(config, log)
