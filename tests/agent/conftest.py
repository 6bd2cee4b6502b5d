from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.engine_tree import Tree, make_tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return make_tree(tmp_path, sys.executable)
