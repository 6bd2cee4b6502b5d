"""One document, one message, one exit code: how every call ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from oeactl.cli import app, common
from oeactl.cli.common import Call, command
from oeactl.errors import Locked, Refused

REPO = Path(__file__).parents[2]
HOSTS = "default_host: a\ngroups: {lab: [a]}\nhosts:\n  a: {address: 10.0.0.1, user: root}\n  b: {}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    return tmp_path


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ``hosts`` ends as its argument says."""

    @command("oeactl hosts locked")
    def hosts(call: Call, name: common.HostArgument = None) -> int | None:
        """List the hosts of hosts.yaml, or show one."""
        call.emit({"never": "seen"} if name else {"value": 1}, lambda: "text")
        match name:
            case "locked":
                raise Locked("locked", where="h", hint="wait", details=("since noon", "by me"))
            case "refused":
                raise Refused("refused.")
            case "bug":
                raise KeyError("x")
            case "interrupted":
                raise KeyboardInterrupt
            case "code":
                return 7
        return None

    monkeypatch.setattr(import_module("oeactl.cli.hosts"), "hosts", hosts)


def test_every_row_of_the_table_is_a_command_on_one_line() -> None:
    root = app.application()
    longest = max(map(len, app.COMMANDS))
    for name, (_, about) in app.COMMANDS.items():
        assert root.get_command(None, name).help, name
        assert 2 + longest + 2 + len(about) < 80, name


def test_help_lists_every_command_and_imports_none() -> None:
    code = (
        "import sys; from oeactl.cli.app import main; code = main(['--help']);"
        "heavy = {'rich', 'fabric', 'paramiko', 'libcst', 'msgspec', 'yaml', 'logging', 'oeactl.core'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    for name, (_, about) in app.COMMANDS.items():
        assert name in done.stdout
        assert about.split()[0] in done.stdout


def test_no_words_mean_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main([]) == 0
    assert "Usage: oeactl" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("oeactl 0.")


def test_every_command_shows_an_example_and_the_common_options(capsys: pytest.CaptureFixture[str]) -> None:
    for words in every_command():
        assert app.main([*words, "--help"]) == 0
        shown = capsys.readouterr().out
        assert f"oeactl {' '.join(words)}" in shown.partition("Example")[2], words
        for option in ("--json", "--verbose", "--debug", "--project"):
            assert option in shown


def every_command() -> list[list[str]]:
    found = []
    root = app.application()
    for name in app.COMMANDS:
        target = root.get_command(None, name)
        inner = getattr(target, "commands", None)
        found.extend([[name, sub] for sub in inner] if inner else [[name]])
    return found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hsots"], "error: unknown command 'hsots'; did you mean 'hosts'?\n"),
        (["zzz"], "error: unknown command 'zzz'; oeactl --help\n"),
        (["hosts", "--nope"], "oeactl hosts --help\n"),
        (["--nope"], "; oeactl --help\n"),
        (["hosts", "a", "b"], "oeactl hosts --help\n"),
        (["hosts", "c"], "error: unknown host 'c'; hosts.yaml; hosts: a, b, @local\n"),
        (["hosts", "--project", "nowhere"], "error: no such project folder; nowhere; "),
    ],
)
def test_wrong_words_are_usage(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert app.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_wrong_words_with_json_are_one_document(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["hsots", "--json"], ["hosts", "--nope", "--json"], ["hosts", "c", "--json"]):
        assert app.main(words) == 2
        out, err = capsys.readouterr()
        assert json.loads(out)["error"]["exit_code"] == 2
        assert err == ""


@pytest.mark.usefixtures("fails")
@pytest.mark.parametrize(
    ("words", "code", "err"),
    [
        (["locked"], 5, "since noon\nby me\nerror: locked; h; wait\n"),
        (["refused"], 3, "error: refused\n"),
        (["interrupted"], 130, "error: interrupted\n"),
        (["code"], 7, ""),
        ([], 0, ""),
    ],
)
def test_an_error_is_its_class(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, err: str
) -> None:
    assert app.main(["hosts", *words]) == code
    captured = capsys.readouterr()
    assert captured.err == err
    assert captured.out == "text\n"


@pytest.mark.usefixtures("fails")
def test_json_is_the_value_or_the_error_never_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["hosts", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"value": 1}
    assert app.main(["hosts", "locked", "--json"]) == 5
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == {
        "error": {
            "kind": "Locked",
            "exit_code": 5,
            "what": "locked",
            "where": "h",
            "hint": "wait",
            "details": ["since noon", "by me"],
        }
    }


@pytest.mark.usefixtures("fails")
def test_a_bug_is_one_line_and_debug_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["hosts", "bug"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: a bug of oeactl: KeyError: 'x'; oeactl/cli/common.py:")
    assert err.endswith("the same with --debug shows the traceback\n")
    assert err.count("\n") == 1
    assert app.main(["hosts", "bug", "--debug"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_hosts_shows_what_a_command_would_take(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert app.main(["hosts"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [["→", "a"], ["b", "b"]]
    assert "root@10.0.0.1" in lines[2]
    monkeypatch.setenv("OEACTL_HOST", "b")
    assert app.main(["hosts", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["chosen"] == "b"
    assert [host["name"] for host in value["hosts"]] == ["a", "b"]


def test_hosts_shows_one_whole(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["hosts", "10.0.0.1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("a\n  address: 10.0.0.1\n  user: root\n")
    assert "  bench:\n    concurrency: 1 4 8 16 32 64 128\n" in shown


def test_hosts_hides_secrets(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "hosts.yaml").write_text(
        "hosts: {a: {engine: {python: /p}, server: {argv: [-m, x, --api-key, SENTINEL], log: /l,"
        " env: {HF_TOKEN: SENTINEL, A: b}, api_key_env: MY_KEY}}}"
    )
    for words in (["hosts"], ["hosts", "a"], ["hosts", "--json"], ["hosts", "a", "--json"]):
        assert app.main(words) == 0
        assert "SENTINEL" not in (shown := capsys.readouterr().out)
        if "a" in words:
            assert "MY_KEY" in shown, "the name of a variable is none"


def test_no_hosts_file_is_usage_unless_this_machine_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert app.main(["hosts"]) == 2
    assert f"no hosts.yaml here or in any folder above; {tmp_path}; " in capsys.readouterr().err
    assert app.main(["hosts", "@local"]) == 0


QUICK = b"""
id: quick
revision: 3
title: More requests at once
summary: Takes more requests.
engine: {package: sglang, versions: ">=0.5"}
parameters:
  most: {type: int, default: 64, min: 1, max: 512, about: requests at once}
launch: {args: [--max-running-requests, "{most}"]}
"""


@pytest.fixture
def quick(project: Path) -> Path:
    case = project / "recipes" / "quick" / "cases" / "default"
    case.mkdir(parents=True)
    (case / "case.yaml").write_text('launch: {args: [--max-running-requests, "64"]}\n')
    (project / "recipes" / "quick" / "recipe.yaml").write_bytes(QUICK)
    return project


@pytest.mark.usefixtures("quick")
def test_recipes_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["recipes"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("quick"))
    assert row.split() == ["quick", "3", "sglang", ">=0.5", "most=64", "More", "requests", "at", "once"]
    assert app.main(["recipes", "quick"]) == 0
    shown = capsys.readouterr().out
    assert "quick, revision 3: More requests at once\n" in shown
    assert "  most=64 (int, at least 1, at most 512): requests at once\n" in shown
    assert "adds to the launch: --max-running-requests {most}\n" in shown
    assert app.main(["recipes", "quick", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"]["most"]["default"] == 64
    assert app.main(["recipes", "--json"]) == 0
    assert "quick" in [recipe["id"] for recipe in json.loads(capsys.readouterr().out)["recipes"]]


def test_recipes_need_no_hosts_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert app.main(["recipes"]) == 0


def test_a_wrong_recipe_is_named_with_its_line(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quick / "recipes" / "quick" / "recipe.yaml").write_bytes(QUICK.replace(b"title", b"tilte"))
    assert app.main(["recipes", "quick"]) == 2
    assert capsys.readouterr().err == (
        "error: unknown key 'tilte' in the document; recipes/quick/recipe.yaml:4; did you mean 'title'?\n"
    )
    assert app.main(["recipes", "quik"]) == 2
    assert capsys.readouterr().err == "error: unknown recipe 'quik'; did you mean 'quick'?\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["hosts"], 141),
        (["hosts", "--json"], 141),
        (["--help"], 141),
        (["hosts", "nobody", "--json"], 2),
    ],
)
def test_a_broken_pipe_is_quiet(words: list[str], code: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "oeactl", *words], stdout=writer, stderr=subprocess.PIPE, cwd=REPO, check=False
    )
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == code


def test_a_shell_is_told_what_fits(quick: Path) -> None:
    def complete(line: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "oeactl"],
            capture_output=True,
            text=True,
            check=False,
            cwd=quick,
            env={**os.environ, "_OEACTL_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line},
        )
        return done.stdout.split()

    assert any("hosts" in word for word in complete("oeactl ho"))
    assert any('"@local"' in word for word in complete("oeactl hosts "))
    assert any("quick" in word for word in complete("oeactl recipes q"))
