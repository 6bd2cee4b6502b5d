"""A recipe of arguments, environment and a data file, through real commands: on, seen in the process, off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.served import Served, served

NAME = "sglang/srt/layers/moe/E=8,N=64,device_name=Some GPU,block_shape=[128, 128].json"
RECIPE = f"""\
id: tuned
revision: 1
title: Arguments, environment and a file
engine: {{package: sglang}}
parameters: {{flushes: {{type: int, default: 0, min: 0}}}}
whole_files: [{{path: "{NAME}", source: config.json}}]
launch: {{args: [--busy-flushes, "{{flushes}}"], env: {{NCCL_P2P_LEVEL: SYS}}}}
"""
CASE = "launch: {args: [--busy-flushes, '0'], env: {NCCL_P2P_LEVEL: SYS}}\n"
CONTENT = b'{"1": {}}'


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    one = served(tmp_path, capsys)
    folder = tmp_path / "recipes" / "tuned"
    (folder / "cases" / "launch").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "cases" / "launch" / "case.yaml").write_text(CASE)
    (folder / "config.json").write_bytes(CONTENT)
    yield one
    one.standin.clear()


def running(place: Served) -> tuple[list[str], dict[str, str]]:
    """Arguments and environment of the one server that runs, as the kernel has them."""
    (pid,) = place.standin.pids()
    proc = Path(f"/proc/{pid}")
    env = (line.partition("=") for line in (proc / "environ").read_text().split("\0") if line)
    return (proc / "cmdline").read_text().split("\0"), {name: value for name, _, value in env}


def test_what_it_adds_is_there_while_it_is_on_and_gone_when_it_is_off(place: Served) -> None:
    path = place.tree.site / NAME
    place.oeactl("start")
    plain = running(place)
    assert "--busy-flushes" not in plain[0]
    done = place.oeactl("patch", "--recipe", "tuned", "--set", "flushes=1", "--yes")
    assert (done["status"], done["live"], len(done["files"])) == ("patched", "restarted", 1)
    argv, env = running(place)
    assert argv[argv.index("--busy-flushes") + 1] == "1" and env["NCCL_P2P_LEVEL"] == "SYS"
    assert path.read_bytes() == CONTENT
    assert place.oeactl("patch", "--recipe", "tuned", "--set", "flushes=1", "--yes")["status"] == (
        "already applied"
    )
    (file,) = (file for file in place.oeactl("status")["files"] if file["module"] == NAME)
    assert file["state"] == "patched"
    done = place.oeactl("patch", "--recipe", "tuned", "--yes")
    argv, _ = running(place)
    assert argv[argv.index("--busy-flushes") + 1] == "0", "other parameters, in place"
    assert done["files"] == []
    assert place.oeactl("revert", "--yes")["status"] == "reverted"
    argv, env = running(place)
    assert argv == plain[0] and "NCCL_P2P_LEVEL" not in env
    assert not path.exists()
    assert not (place.standin.state_dir / "journal.json").exists()


def test_a_server_that_does_not_come_up_with_it_is_put_back_with_the_file(place: Served) -> None:
    text = (place.folder / "recipes/tuned/recipe.yaml").read_text()
    (place.folder / "recipes/tuned/recipe.yaml").write_text(text.replace("--busy-flushes", "--no-such"))
    case = place.folder / "recipes/tuned/cases/launch/case.yaml"
    case.write_text(CASE.replace("--busy-flushes", "--no-such"))
    place.oeactl("start")
    plain = running(place)
    error = place.oeactl("patch", "--recipe", "tuned", "--yes", code=6)["error"]
    assert "the files are as they were, and the server is back and healthy" in error["what"]
    assert running(place)[0] == plain[0]
    assert not (place.tree.site / NAME).exists()


def test_where_nothing_would_come_of_it_it_is_refused(place: Served) -> None:
    place.write(place.entry(argv=None, manager="commands", start=["true"], stop=["true"]))
    error = place.oeactl("patch", "--recipe", "tuned", "--no-restart", "--yes", code=3)["error"]
    assert "adds --busy-flushes 0 to the launch, and this server is begun by a command" in error["what"]
    entry = place.entry()
    del entry["server"]
    entry["engine"]["root"] = str(place.tree.site)
    place.write(entry)
    error = place.oeactl("patch", "--recipe", "tuned", "--yes", code=3)["error"]
    assert "hosts.yaml describes none" in error["what"]
    assert not (place.tree.site / NAME).exists()


SCRIPTED = """\
id: scripted
revision: 1
title: By a script
engine: {package: sglang}
files: [{module: sglang.srt.layers.moe.topk, transform: transform.py}]
"""


def test_a_script_of_a_recipe_is_asked_for_and_taken_back(place: Served) -> None:
    folder = place.folder / "recipes" / "scripted"
    (folder / "cases" / "one").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(SCRIPTED)
    (folder / "transform.py").write_text(
        "def transform(source, values):\n    return source.replace('all', 'few')\n"
    )
    (folder / "cases" / "one" / "before.py").write_text("x = 'all'\n")
    (folder / "cases" / "one" / "after.py").write_text("x = 'few'\n")
    path = place.tree.site / "sglang/srt/layers/moe/topk.py"
    before = path.read_bytes()
    words = ("patch", "--recipe", "scripted", "--no-restart", "--yes")
    assert "runs code of its own" in place.oeactl(*words, code=3)["error"]["what"]
    assert path.read_bytes() == before
    assert place.oeactl(*words, "--allow-code")["status"] == "patched"
    assert b"'few'" in path.read_bytes()
    assert place.oeactl("revert", "--no-restart", "--yes")["status"] == "reverted"
    assert path.read_bytes() == before
