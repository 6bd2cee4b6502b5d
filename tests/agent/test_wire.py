"""The program that is sent: it runs whole or not at all, answers amid noise, and ends when nobody listens."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from itertools import islice
from pathlib import Path

import pytest

from oeactl.agent import loader
from oeactl.edges.agent_link import Frames
from oeactl.edges.agent_program import BOOTSTRAP, brought, message, modules, needs, program
from oeactl.edges.files import _fields
from oeactl.errors import UsageError
from tests.support.engine_tree import ORIGINAL, PATCHED, ROUTER, Tree, make_tree
from tests.support.patience import until

ARGV = (sys.executable, "-I", "-S", "-c", BOOTSTRAP)


def journal_message(folder: Path, sentinel: str = "5e") -> bytes:
    return message("journal", sentinel, {"root": str(folder), "state_dir": str(folder / "state")})


def test_the_agent_speaks_only_the_standard_library() -> None:
    ours = set()
    for name, source in modules()[0].items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                ours |= {(name, alias.name.split(".")[0]) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                ours |= {(name, str(node.module).split(".")[0])}
    later = {"_sha2"}  # from 3.12 on, and asked for first
    assert {top for _, top in ours} <= set(sys.stdlib_module_names) | later


def test_the_agents_syntax_is_that_of_python_3_8() -> None:
    for source in modules()[0].values():
        ast.parse(source, feature_version=(3, 8))


def python_3_8() -> str | None:
    for path in (shutil.which("python3.8"), *Path("~/.pyenv/versions").expanduser().glob("3.8.*/bin/python")):
        if path is not None:
            done = subprocess.run(
                [path, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True
            )
            if done.stdout == b"(3, 8)\n":
                return str(path)
    return None


def test_it_works_under_python_3_8(tmp_path: Path) -> None:
    python = python_3_8()
    if python is None:
        pytest.skip("no Python 3.8 is installed here")
    tree = make_tree(tmp_path, python)
    assert tree.files.survey(tree.request()).engine.python_version.startswith("3.8.")
    tree.files.write(tree.transaction(probe=tree.probe()))
    assert tree.contents() == PATCHED
    tree.files.write(tree.transaction("revert"))
    assert tree.contents() == ORIGINAL
    program = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    names = [name.replace(loader.PACKAGE, "oeactl.agent") for name in modules()[0]]
    package = str(Path(loader.__file__).parents[2])
    subprocess.run([python, "-c", program, *names], env={"PYTHONPATH": package}, check=True)


def test_what_goes_with_a_question_is_the_same_every_time_and_small() -> None:
    survey = needs("survey")
    assert brought("survey") is brought("survey")
    assert len(program()) + len(brought("survey")) < 80_000
    assert len(brought("write", survey)) < len(brought("write")) / 2
    assert len(brought("write", needs("write"))) < 200


def test_an_operation_brings_every_module_that_it_may_come_to_import() -> None:
    sources, operations = modules()
    for op, module in operations.items():
        todo, found = ["wire", module], set()
        while todo:
            name = todo.pop()
            if name in found:
                continue
            found.add(name)
            for node in ast.walk(ast.parse(sources[f"{loader.PACKAGE}.{name}"])):
                if isinstance(node, ast.ImportFrom) and node.level:
                    todo += [node.module] if node.module else [alias.name for alias in node.names]
        assert {f"{loader.PACKAGE}.{name}" for name in found} <= needs(op), op


def test_what_nearly_every_command_asks_does_without_the_slow_parts_of_the_standard_library() -> None:
    program = (
        "import sys\n"
        "from oeactl.agent import loader, survey, transaction\n"
        "slow = {'typing', 're', 'json', 'enum', 'subprocess', 'threading', 'hashlib', 'importlib.util'}\n"
        "print(sorted(slow & set(sys.modules)))"
    )
    folder = Path(loader.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=folder, stdout=subprocess.PIPE, check=True, text=True
    )
    assert done.stdout == "[]\n"


def other_pythons() -> list[str]:
    """Interpreters of other releases than this one, 3.8 or newer."""
    found = []
    for path in sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python")):
        minor = int(path.parts[-3].split(".")[1])
        if minor >= 8 and minor != sys.version_info[1]:
            found.append(str(path))
    return found


def test_a_python_of_another_release_compiles_what_it_is_sent(tmp_path: Path) -> None:
    pythons = other_pythons()
    if not pythons:
        pytest.skip("no other Python is installed here")
    for number, python in enumerate(pythons):
        tree = make_tree(tmp_path / str(number), python)
        tree.files.write(tree.transaction())
        assert tree.contents() == PATCHED
        tree.files.write(tree.transaction("revert"))
        assert tree.contents() == ORIGINAL


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_message_cut_anywhere_does_nothing(tmp_path: Path, part: float) -> None:
    tree = make_tree(tmp_path, sys.executable)
    whole = message("write", "5e", _fields(tree.transaction()))
    done = subprocess.run(ARGV, input=whole[: int(len(whole) * part)], capture_output=True)
    assert done.returncode != 0
    assert done.stdout == b""
    assert tree.contents() == ORIGINAL
    assert not tree.state.exists()


def test_a_damaged_program_is_not_run(tmp_path: Path) -> None:
    whole = bytearray(journal_message(tmp_path))
    whole[2000] ^= 1
    done = subprocess.run(ARGV, input=bytes(whole), capture_output=True)
    assert done.returncode != 0
    assert b"cut short" in done.stderr


def test_an_old_python_says_that_it_is_too_old() -> None:
    found = sorted(Path("~/.pyenv/versions").expanduser().glob("[23].[67]*/bin/python"))
    if not found:
        pytest.skip("no older Python is installed here")
    done = subprocess.run([str(found[0]), "-c", BOOTSTRAP], input=b"", capture_output=True)
    assert b"Python 3.8 or newer" in done.stderr


def test_frames_are_found_amid_noise_in_pieces_of_any_size() -> None:
    sentinel = "5e1f"
    answer = zlib.compress(json.dumps({"ok": "\n5e1f event 3\n"}).encode())
    stream = (
        b"motd\n5e1f\n"
        + b'\n5e1f event 16\n{"event": "one"}\n'
        + b"more noise \x00\xff\n"
        + b"\n5e1f answer %d\n" % len(answer)
        + answer
        + b"\nlogout\n"
    )
    for size in (1, 2, 7, 64, len(stream)):
        frames = Frames(sentinel)
        found = [
            frame
            for start in range(0, len(stream), size)
            for frame in frames.feed(stream[start : start + size])
        ]
        assert found == [("event", {"event": "one"}), ("answer", {"ok": "\n5e1f event 3\n"})]
        noise = frames.finish()
        assert noise.startswith(b"motd")
        assert noise.endswith(b"logout")


def test_stray_prints_of_the_agents_children_cannot_spoil_an_answer(tree: Tree) -> None:
    (tree.site / "sitecustomize.py").write_text("import os\nos.write(1, b'\\x00\\xff noise\\n')\n")
    assert tree.files.survey(tree.request()).engine.root == tree.root


def test_an_unknown_operation_is_a_usage_error(tree: Tree) -> None:
    with pytest.raises(UsageError):
        tree.link.ask("no-such-operation")


def begin_slow_write(tree: Tree) -> subprocess.Popen[bytes]:
    """A write whose probe sleeps, begun; returns when the probe runs."""
    started = tree.site.parent / "started"
    source = f"import time\nopen({str(started)!r}, 'w').close()\ntime.sleep(60)\nroute = None\n"
    transaction = tree.transaction(contents={**PATCHED, ROUTER: source.encode()}, probe=tree.probe())
    process = subprocess.Popen(
        ARGV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    process.stdin.write(message("write", "5e", _fields(transaction)))
    process.stdin.close()
    until(started.exists)
    assert tree.contents() != ORIGINAL
    return process


def finish(process: subprocess.Popen[bytes]) -> int:
    code = process.wait(50)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return code


def test_a_vanished_client_ends_the_program_and_the_files_go_back(tree: Tree) -> None:
    process = begin_slow_write(tree)
    assert process.stdout is not None
    process.stdout.close()
    assert finish(process) == 143
    assert tree.contents() == ORIGINAL
    assert not tree.state.exists()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_orderly(tree: Tree, number: signal.Signals) -> None:
    process = begin_slow_write(tree)
    os.kill(process.pid, number)
    assert finish(process) == 143
    assert tree.contents() == ORIGINAL
    assert not tree.state.exists()


def test_a_client_that_stays_is_shown_a_sign_of_life_each_second(tree: Tree) -> None:
    process = begin_slow_write(tree)
    assert process.stdout is not None
    begun = time.monotonic()
    signs = (line for line in process.stdout if b'"alive"' in line)
    assert len(list(islice(signs, 2))) == 2
    assert time.monotonic() - begun < 30
    os.kill(process.pid, signal.SIGTERM)
    finish(process)


def test_a_patch_that_is_interrupted_here_is_undone_there(tree: Tree, tmp_path: Path) -> None:
    """Ctrl-C while the agent works: leaving ``ask`` ends the agent, and the agent puts everything back."""
    started = tmp_path / "started"
    source = f"import time\nopen({str(started)!r}, 'w').close()\ntime.sleep(60)\nroute = None\n"
    program = (
        "import sys, pathlib\n"
        "from tests.support.engine_tree import *\n"
        "tree = make_tree(pathlib.Path(sys.argv[1]), sys.executable)\n"
        "contents = {**PATCHED, ROUTER: sys.argv[2].encode()}\n"
        "tree.files.write(tree.transaction(contents=contents, probe=tree.probe()))\n"
    )
    client = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), source], stderr=subprocess.PIPE, start_new_session=True
    )
    until(started.exists)
    client.send_signal(signal.SIGINT)
    _, text = client.communicate(timeout=50)
    assert b"KeyboardInterrupt" in text
    assert tree.contents() == ORIGINAL
    assert not tree.state.exists()
