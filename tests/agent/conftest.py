from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oeactl.edges.agent_program import modules
from tests.support.engine_tree import Tree, make_tree
from tests.support.zygote import ZygoteRemote


@pytest.fixture(scope="session")
def zygote() -> Iterator[ZygoteRemote]:
    """Asked one message at a time, ten times as fast as a fresh interpreter."""
    remote = ZygoteRemote(dict(modules()[1]))
    yield remote
    remote.close()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return make_tree(tmp_path, sys.executable)
