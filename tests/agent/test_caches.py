"""Compilation caches on a real disk: found by environment, emptied only where they look like caches."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from oeactl.edges.agent_link import AgentLink
from oeactl.edges.caches import AgentCaches
from oeactl.edges.local import open_local
from oeactl.errors import Refused


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def caches(home: Path) -> Any:
    link = AgentLink(open_local("@local"), keep=True)
    yield AgentCaches(link)
    link.close()


def filled(folder: Path, *sizes: int) -> Path:
    for number, size in enumerate(sizes):
        path = folder / f"k{number}" / "kernel.cubin"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x" * size)
    return folder


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "TMPDIR": str(home / "tmp"), **more}


def test_each_is_found_where_engines_of_every_age_keep_it(home: Path, caches: AgentCaches) -> None:
    filled(home / ".triton" / "cache", 10, 20)
    filled(home / ".cache" / "sglang" / "inductor", 5)
    newest = max(path.stat().st_mtime for path in home.rglob("*.cubin"))
    found = {state.name: state for state in caches.look(environment(home))}
    assert set(found) == {"triton", "inductor"}
    assert (found["triton"].files, found["triton"].bytes) == (2, 30)
    assert found["inductor"].newest_at == pytest.approx(newest, abs=0.01)
    assert found["triton"].path == str(home / ".triton" / "cache")


def test_a_variable_moves_it_and_the_usual_place_is_then_not_looked_at(
    home: Path, caches: AgentCaches
) -> None:
    filled(home / ".triton" / "cache", 10)
    moved = filled(home / "mount" / "triton-cache", 1, 2, 3)
    (found,) = caches.look(environment(home, TRITON_CACHE_DIR=str(moved)))
    assert (found.path, found.files) == (str(moved), 3)


def test_sglangs_own_folder_is_followed(home: Path, caches: AgentCaches) -> None:
    filled(home / "big" / "triton", 4)
    filled(home / "big" / ".cache" / "flashinfer", 4)
    found = caches.look(environment(home, SGLANG_CACHE_DIR=str(home / "big")))
    assert [state.name for state in found] == ["triton", "flashinfer"]


def test_nothing_there_is_nothing(home: Path, caches: AgentCaches) -> None:
    assert caches.look(environment(home)) == ()
    assert caches.wipe(environment(home)) == ()


def test_wiping_empties_the_folders_and_leaves_them_and_all_else(home: Path, caches: AgentCaches) -> None:
    cache = filled(home / ".triton" / "cache", 10, 20)
    outside = filled(home / "outside", 7)
    (cache / "link").symlink_to(outside)
    (found,) = caches.wipe(environment(home))
    assert (found.files, found.bytes, found.newest_at) == (0, 0, None)
    assert cache.is_dir() and list(cache.iterdir()) == []
    assert (outside / "k0" / "kernel.cubin").exists()


def test_a_folder_that_is_reached_by_a_link_is_emptied_where_it_is(home: Path, caches: AgentCaches) -> None:
    real = filled(home / "disk" / "triton-cache", 3)
    (home / ".triton").mkdir()
    (home / ".triton" / "cache").symlink_to(real)
    assert [state.files for state in caches.wipe(environment(home))] == [0]
    assert real.is_dir() and (home / ".triton" / "cache").is_symlink()


@pytest.mark.parametrize("variable", ["TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR"])
def test_what_does_not_look_like_a_cache_is_not_emptied_and_nor_is_any_other(
    home: Path, caches: AgentCaches, variable: str
) -> None:
    with tempfile.TemporaryDirectory(prefix="data-", dir="/tmp") as folder:
        precious = filled(Path(folder) / "models", 8)
        innocent = filled(home / ".cache" / "flashinfer", 5)
        with pytest.raises(Refused, match="does not look like a compilation cache"):
            caches.wipe(environment(home, **{variable: str(precious)}))
        assert (precious / "k0" / "kernel.cubin").exists()
        assert (innocent / "k0" / "kernel.cubin").exists()


@pytest.mark.parametrize("path", ["/", "/tmp", "~", "~/.."])
def test_a_home_or_a_top_folder_is_never_emptied(path: str) -> None:
    from oeactl.agent.caches import _check
    from oeactl.agent.wire import AgentError

    with pytest.raises(AgentError):
        _check(str(Path(path).expanduser().resolve()))
