"""What every command shares: its common options, its project and host, its output, its end.

A command is a function; the first parameter is the call, the others are its own options::

    @command("oeactl restart --host 10.1.230.174 --yes")
    def restart(call: Call, host: HostOption = None, yes: YesOption = False) -> int | None:
        \"\"\"Restart the server and wait until it answers.\"\"\"
        from oeactl.flows.restart import restart as run     # heavy imports inside

        outcome = run(site(call.host(host), progress=call.progress, prompt=call.prompt(yes)))
        call.emit(outcome, lambda: f"ready after {outcome.seconds:.0f} s")

``--project``, ``--json``, ``-v`` and ``--debug`` come by themselves. The function returns an exit code, or
None for 0; errors are raised, and reported in one place (``ending.py``). ``call.emit`` takes the value that
``--json`` prints and a function that makes what a person reads: text, or anything rich can print.

Owns: this frame. Refuses: to know any command.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from oeactl.cli.ending import print_document
from oeactl.errors import OeactlError, UsageError

if TYPE_CHECKING:
    from oeactl.core.inventory import Host, Picked
    from oeactl.core.transform import Transformer
    from oeactl.edges.board import Board
    from oeactl.edges.config import Project
    from oeactl.edges.terminal import LiveProgress, PlainProgress, Secret, TerminalPrompt

HOST_VARIABLE = "OEACTL_HOST"

F = TypeVar("F", bound=Callable[..., "int | None"])


def _hosts_like(incomplete: str) -> list[str]:
    return [name for name in _host_names() if name.startswith(incomplete)]


def _list_like(incomplete: str) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _host_names(groups=True) if name.startswith(last)]


def _host_names(*, groups: bool = False) -> list[str]:
    from oeactl.core.inventory import LOCAL
    from oeactl.edges.config import load_project

    try:
        inventory = load_project(Path.cwd()).inventory
    except OeactlError:
        return [LOCAL]
    return list(dict.fromkeys((*inventory.hosts, LOCAL, *(inventory.groups if groups else ()))))


def _recipes_like(incomplete: str) -> list[str]:
    from oeactl.edges.config import find_root, recipe_ids

    try:
        root = find_root(Path.cwd())
    except OeactlError:
        root = None
    return [recipe for recipe in recipe_ids(root) if recipe.startswith(incomplete)]


HostOption = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="NAME",
        help="A name or address in hosts.yaml, or @local. Else OEACTL_HOST, default_host, the only entry.",
        autocompletion=_hosts_like,
    ),
]
HostsOption = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="NAME,…",
        help="Names, addresses, groups of hosts.yaml, @local. Else OEACTL_HOST, default_host, the only one.",
        autocompletion=_list_like,
    ),
]
FailFastOption = Annotated[
    bool, typer.Option("--fail-fast", help="Of several hosts begin no further one once one has failed.")
]
RecipeOption = Annotated[
    str, typer.Option("--recipe", metavar="ID", help="Which recipe.", autocompletion=_recipes_like)
]
AnyRecipeOption = Annotated[
    str | None, typer.Option("--recipe", metavar="ID", help="Only this recipe.", autocompletion=_recipes_like)
]
RecipeArgument = Annotated[
    str | None, typer.Argument(metavar="ID", help="One recipe.", autocompletion=_recipes_like)
]
NamedRecipeArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Which recipe.", autocompletion=_recipes_like)
]
SetOption = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the recipe; may be repeated.")
]
AllowCodeOption = Annotated[
    bool, typer.Option("--allow-code", help="Run the recipe's own script on this machine; read it first.")
]
HostArgument = Annotated[
    str | None, typer.Argument(metavar="NAME", help="One host.", autocompletion=_hosts_like)
]
NoRestartOption = Annotated[
    bool, typer.Option("--no-restart", help="Files only; a running server keeps the code it has.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project", metavar="FOLDER", help="The folder with hosts.yaml, if not this one or one above."
    ),
]
_JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]
_VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Say more on the way.")]
_DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
_COMMON: dict[str, tuple[Any, Any]] = {
    "project": (_ProjectOption, None),
    "json": (_JsonOption, False),
    "verbose": (_VerboseOption, False),
    "debug": (_DebugOption, False),
}


class Call:
    """One call of a command: where it works, how it talks."""

    def __init__(self, *, project: Path | None, json: bool, verbose: bool, debug: bool) -> None:
        self.json = json
        self.verbose = verbose
        self.debug = debug
        self.document: Any = {}
        self.pause: Callable[[], None] = lambda: self.progress.pause()
        self._folder = project
        self._projectless = False

    @cached_property
    def project(self) -> Project:
        """The project: its root folder and inventory. Raises UsageError where there is none."""
        from oeactl.edges.config import find_root, load_project, projectless

        if self._projectless and self._folder is None:
            try:
                find_root(Path.cwd())
            except UsageError:
                return projectless(Path.cwd())
        return load_project(Path.cwd(), self._folder)

    @property
    def root(self) -> Path | None:
        """The project's folder, or None where there is none: for commands that name no host."""
        from oeactl.edges.config import find_root

        try:
            return find_root(Path.cwd(), self._folder)
        except UsageError:
            if self._folder is not None:
                raise
            return None

    def host(self, wanted: str | None) -> Host:
        """The host that ``--host``, OEACTL_HOST or the default means. ``@local`` needs no hosts.yaml."""
        from oeactl.core.inventory import LOCAL, pick_host

        preferred = os.environ.get(HOST_VARIABLE)
        self._projectless = (wanted or preferred) == LOCAL
        return pick_host(self.project.inventory, wanted, preferred)

    def hosts(self, wanted: str | None) -> Picked:
        """The hosts that ``--host``, OEACTL_HOST or the default means: one, or several by a list or group."""
        from oeactl.core.inventory import LOCAL, pick_hosts

        preferred = os.environ.get(HOST_VARIABLE)
        self._projectless = (wanted or preferred) == LOCAL
        return pick_hosts(self.project.inventory, wanted, preferred)

    @cached_property
    def progress(self) -> PlainProgress | LiveProgress:
        """What a person watches, on stderr; almost nothing with ``--json``."""
        from oeactl.edges.terminal import LiveProgress, PlainProgress, QuietProgress, is_terminal

        if self.json:
            return QuietProgress(sys.stderr)
        kind = LiveProgress if is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb" else PlainProgress
        return kind(sys.stderr, verbose=self.verbose)

    def board(self, hosts: list[str]) -> Board:
        """What a person watches while several hosts are at work, on stderr."""
        from oeactl.edges.board import LiveBoard, PlainBoard
        from oeactl.edges.terminal import is_terminal

        if self.json or self.verbose or not is_terminal(sys.stderr) or os.environ.get("TERM") == "dumb":
            return PlainBoard(sys.stderr, verbose=self.verbose, quiet=self.json)
        return LiveBoard(sys.stderr, hosts)

    def prompt(self, yes: bool, pause: Callable[[], None] | None = None) -> TerminalPrompt:
        """Who is asked before something is stopped or restarted. pause: clears the screen for it."""
        from oeactl.edges.terminal import TerminalPrompt

        answers = None if self.json else sys.stdin
        return TerminalPrompt(yes=yes, answers=answers, stream=sys.stderr, pause=pause or self.progress.pause)

    @cached_property
    def sudo_password(self) -> Secret:
        """sudo's password on whichever host asks for one: from OEACTL_SUDO_PASSWORD, or the person."""
        from oeactl.edges.sudo import VARIABLE

        return self._secret(VARIABLE, "sudo password on")

    @cached_property
    def key_passphrase(self) -> Secret:
        """What opens an encrypted key file: OEACTL_KEY_PASSPHRASE, or the person is asked."""
        from oeactl.edges.ssh.keys import PASSPHRASE

        return self._secret(PASSPHRASE, "passphrase of", each=True)

    def _secret(self, variable: str, question: str, *, each: bool = False) -> Secret:
        from oeactl.edges.terminal import Secret

        return Secret(
            variable=variable,
            question=question,
            environ=os.environ,
            answers=None if self.json else sys.stdin,
            stream=sys.stderr,
            pause=lambda: self.pause(),
            each=each,
        )

    def emit(self, value: Any, text: Callable[[], Any]) -> None:
        """Give the result: ``value`` at the end with ``--json``; else what ``text()`` makes of it, now.

        value: the document, or what makes it where that is work that nobody may want.
        """
        self.close()
        if self.json:
            self.document = value() if callable(value) else value
        else:
            self.show(text())

    def show(self, made: Any) -> None:
        """Print text, or anything rich can print, as a result: on stdout, now; nothing with ``--json``."""
        if self.json:
            return
        self.close()
        if not isinstance(made, str):
            made = self._text_of(made)
        self.line(made)

    def _text_of(self, made: Any) -> str:
        from rich.text import Text

        from oeactl.edges.terminal import console, is_terminal

        if isinstance(made, Text) and not is_terminal(sys.stdout):
            shown = made.plain
        else:
            screen = console(sys.stdout)
            with screen.capture() as captured:
                screen.print(made, soft_wrap=isinstance(made, Text))
            shown = captured.get()
        return "\n".join(line.rstrip() for line in shown.splitlines())

    @property
    def width(self) -> int:
        """Columns of stdout; as many as wanted in a pipe."""
        from oeactl.edges.terminal import console

        return int(console(sys.stdout).width)

    def line(self, text: str) -> None:
        """Print a line of output as it comes (a followed log); not with ``--json``."""
        print(text, flush=True)  # noqa: T201 - stdout is this module's

    def close(self) -> None:
        """End what is on the screen."""
        if "progress" in self.__dict__:
            self.progress.close()


def values_of(sets: list[str]) -> dict[str, str]:
    """``NAME=VALUE`` words as a mapping. Raises UsageError."""
    values: dict[str, str] = {}
    for text in sets:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"'{text}' is not NAME=VALUE", hint="--set k0=4")
        if name.strip() in values:
            raise UsageError(f"{name.strip()} is set twice", hint="name each parameter once")
        values[name.strip()] = value.strip()
    return values


def transformer(allow_code: bool) -> Transformer | None:
    """What runs the scripts of recipes, where ``--allow-code`` was said."""
    from oeactl.edges.transforms import ChildTransformer

    return ChildTransformer() if allow_code else None


def command(*examples: str, name: str | None = None) -> Callable[[F], F]:
    """Mark a function as a command. examples: command lines for its ``--help``. name: if not its own."""

    def mark(function: F) -> F:
        function.__dict__["oeactl_examples"] = examples
        function.__dict__["oeactl_name"] = name or function.__name__
        return function

    return mark


def group(about: str, *functions: Callable[..., int | None]) -> typer.Typer:
    """Several commands under one name: ``results list``, ``results show``."""
    app = typer.Typer(help=about, add_completion=False, rich_markup_mode=None)
    app.callback()(lambda: None)
    for function in functions:
        _register(app, function, function.__dict__["oeactl_name"])
    return app


def typer_of(target: Any, name: str) -> typer.Typer:
    """The typer application of a command function or group."""
    if isinstance(target, typer.Typer):
        return target
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    _register(app, target, name)
    return app


def _register(app: typer.Typer, function: Callable[..., int | None], name: str) -> None:
    examples = function.__dict__["oeactl_examples"]
    epilog = "\n".join(
        ["\b", "Examples:" if len(examples) > 1 else "Example:", *(f"  {e}" for e in examples)]
    )
    app.command(name, help=inspect.getdoc(function), epilog=epilog)(_callback(function))


def _callback(function: Callable[..., int | None]) -> Callable[..., int]:
    """The function as typer calls it: common options added, the call made of them."""
    hints = get_type_hints(function, include_extras=True)
    _, *own = inspect.signature(function).parameters.values()
    parameters = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
    for name, (annotation, default) in _COMMON.items():
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation
            )
        )

    def run(**values: Any) -> int:
        call = Call(**{name: values.pop(name) for name in _COMMON})
        if call.verbose or call.debug:
            _log(call.debug)
        try:
            code = function(call, **values) or 0
        finally:
            call.close()
        if call.json:
            print_document(call.document)
        return code

    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _log(debug: bool) -> None:
    import logging

    logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("oeactl").setLevel(logging.DEBUG if debug else logging.INFO)
