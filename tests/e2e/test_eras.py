"""OEA on live servers of other eras: decode only, seen at work, and gone again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e import asking
from tests.e2e.conftest import Project, project
from tests.support import eras

pytestmark = [pytest.mark.engine, pytest.mark.compat, pytest.mark.timeout(1500)]


@pytest.fixture(params=eras.NEEDS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    """A host whose engine is of that release."""
    beside = eras.beside(request.param)
    engine = eras.engine_of(request.param, tmp_path / "model")
    for made in project(engine, tmp_path / "project", "@local", {}):
        path = made.folder / "hosts.yaml"
        document = yaml.safe_load(path.read_text())
        env = document["hosts"]["@local"]["server"]["env"]
        if beside is not None:
            env["PYTHONPATH"] = f"{env['PYTHONPATH']}:{beside}"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        yield made


def test_prompts_are_the_original_s_under_mixed_load_and_decode_is_not(old: Project) -> None:
    original = old.hashes()
    old.oeactl("start")
    before = asking.see(old.url)
    patched = old.oeactl("patch", "--set", "k0=2", "--yes")
    assert patched["proof"][0]["overall"] == "taken"
    during = asking.see(old.url)
    asking.check_only_decode_changed(before, during)
    old.oeactl("revert", "--yes")
    assert old.hashes() == original
    asking.check_same(before, asking.see(old.url))
