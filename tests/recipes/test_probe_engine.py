"""The import probe on a real SGLang: a name that moved makes models vanish, and that refuses the patch."""

from __future__ import annotations

from pathlib import Path

import pytest

from oeactl.core.host import FileWrite, Probe, Transaction
from oeactl.edges.agent_link import AgentLink
from oeactl.edges.files import AgentFiles
from oeactl.edges.local import open_local
from oeactl.errors import Refused
from tests.support.engine import RELEASE, cpu_engine, server_env
from tests.support.patched import overlay
from tests.support.surveys import HOLDER, sha256
from tests.support.wheels import engine_file

pytestmark = [pytest.mark.network, pytest.mark.engine]

NAME = "sglang/srt/layers/pooler.py"
MODULE = "sglang.srt.layers.pooler"
REGISTRY = "sglang.srt.models.registry"


def test_a_moved_name_is_refused_with_the_models_that_would_vanish(tmp_path: Path) -> None:
    before = engine_file(RELEASE, NAME)
    site = overlay(RELEASE, tmp_path / "site", {NAME: before})
    path = site / NAME

    def change(after: bytes) -> None:
        write = FileWrite(
            module=MODULE,
            path=str(path),
            before_sha256=sha256(path.read_bytes()),
            after=after,
            after_sha256=sha256(after),
            pristine_sha256=sha256(before),
        )
        env = server_env(site)
        files = AgentFiles(AgentLink(open_local(), python=str(cpu_engine().python)))
        files.write(
            Transaction(
                operation="probe-1",
                kind="patch",
                root=str(site / "sglang"),
                state_dir=str(tmp_path / "state"),
                files=(write,),
                layers=(),
                holder=HOLDER,
                what="a moved name",
                probe=Probe(modules=(MODULE,), gatherers=(REGISTRY,), cwd=None, env=env),
            )
        )

    with pytest.raises(Refused) as caught:
        change(before.replace(b"class Pooler(", b"class PoolerV2("))
    assert caught.value.what == "the changed engine swallows an import error"
    lost = [line for line in caught.value.details if "cannot import name 'Pooler'" in line]
    assert len(lost) >= 10, caught.value.details
    assert path.read_bytes() == before
