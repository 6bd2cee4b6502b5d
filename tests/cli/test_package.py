"""What is installed is whole: the recipes, the type marker, the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=REPO,
        check=True,
        capture_output=True,
    )
    return next(folder.glob("oeactl-*.whl"))


def test_the_wheel_holds_the_recipes_the_hardware_and_the_type_marker(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entry = next(name for name in names if name.endswith("entry_points.txt"))
        assert archive.read(entry).decode().split() == [
            "[console_scripts]",
            "oeactl",
            "=",
            "oeactl.__main__:main",
        ]
    assert {"oeactl/py.typed", "oeactl/render/report.css"} <= names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    recipes = {
        path.relative_to(REPO / "recipes").as_posix()
        for path in (REPO / "recipes").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert recipes == {name.removeprefix("oeactl/_recipes/") for name in names if "/_recipes/" in name}
    hardware = {path.name for path in (REPO / "oeactl/data/hardware").iterdir()}
    assert hardware == {Path(name).name for name in names if name.startswith("oeactl/data/hardware/")}
    assert not [name for name in names if name.startswith(("tests/", "docs/", "demo/", "results/"))]


def test_the_installed_command_runs_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python),
            "install",
            "--no-index",
            "--no-deps",
            str(wheel),
        ],
        check=True,
        capture_output=True,
    )
    site = next((tmp_path / "venv" / "lib").glob("python3*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    done = subprocess.run(
        [str(tmp_path / "venv" / "bin" / "oeactl"), "recipes", "--json"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    here = {path.parent.name for path in (REPO / "recipes").glob("*/recipe.yaml")}
    assert {recipe["id"] for recipe in json.loads(done.stdout)["recipes"]} == here
    where = subprocess.run(
        [str(python), "-c", "import oeactl; print(oeactl.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(site))
