"""The command line as a whole: which commands there are, and how a call of one ends.

Owns: the table of commands, lazy loading of the one that is called, the exit code. Refuses: to know what
a command does. ``oeactl --help`` reads the table and imports no command (a test keeps both the same).

A new command is a row below and a function of that name in ``oeactl/cli/<module>.py``; see ``common``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from oeactl import __version__
from oeactl.cli.common import typer_of
from oeactl.cli.ending import ending
from oeactl.errors import OeactlError, UsageError

ABOUT = """Change a remote LLM engine's source by recipes, prove that the change is live, measure it honestly,
and put every byte back."""

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {  # section -> command -> (module, what it does)
    "Change and measure": {
        "patch": ("patch", "Apply a recipe, restart the server, prove that the change runs."),
        "bench": ("bench", "Measure throughput level by level, into results/."),
        "ab": ("experiment", "Tell by fresh restarts whether a recipe makes the engine faster."),
        "aa": ("experiment", "Compare the engine with itself: how much restarts vary."),
        "scan": ("experiment", "Compare combinations of parameters, arguments, environment."),
        "run": ("resume", "Go on with a run that was cut short: resume."),
        "quality": ("quality", "Record how the build answers; tell whether another answers alike."),
        "status": ("status", "Tell what is on disk, loaded, taken, and whether the server is well."),
        "revert": ("revert", "Put the original bytes back, restart the server."),
        "unlock": ("unlock", "End the lease of a command that is no longer at work."),
    },
    "The server": {
        "start": ("serve", "Start it and wait until it answers."),
        "stop": ("serve", "Stop it with all its processes."),
        "restart": ("serve", "Stop it and start it again."),
        "logs": ("serve", "Show the end of its log; -f goes on."),
        "adopt": ("adopt", "Write the hosts.yaml entry of a server that runs already."),
        "doctor": ("doctor", "Check every precondition on a host; say what mends what."),
    },
    "What there is": {
        "hosts": ("hosts", "List the hosts of hosts.yaml, or show one."),
        "recipes": ("recipes", "List the recipes, or show one with its parameters."),
        "recipe": ("recipe", "Work on one: show, check, new, lint, test, import, export."),
        "results": ("results", "What was measured: list, show, compare, query, export, attach."),
        "history": ("history", "Show how fast a host's original engine was over time."),
        "predict": ("predict", "Predict the distinct experts a step reads, and what OEA leaves."),
    },
}
COMMANDS = {name: row for section in SECTIONS.values() for name, row in section.items()}

_COMPLETION = "_OEACTL_COMPLETE"
_Complaint: type[Exception] = next(
    base for base in typer.BadParameter.__mro__ if "ClickException" in str(base)
)


class LazyGroup(TyperGroup):
    """The commands of the table, each imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, about = COMMANDS[cmd_name]
        function = getattr(import_module(f"oeactl.cli.{module}"), cmd_name)
        found = typer.main.get_command(typer_of(function, cmd_name))
        found.name, found.short_help = cmd_name, about
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name in COMMANDS or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from oeactl.core.document import nearest

        meant = nearest(name, COMMANDS)
        raise UsageError(
            f"unknown command '{name}'", hint=f"did you mean '{meant}'?" if meant else "oeactl --help"
        )

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, rows in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, about) for name, (_, about) in rows.items()])


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"oeactl {__version__}")
        raise typer.Exit


def _callback(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def application() -> Any:
    """The whole command line as one click command."""
    app = typer.Typer(name="oeactl", cls=LazyGroup, help=ABOUT, rich_markup_mode=None)
    app.callback(epilog="\b\nOne command more closely: oeactl COMMAND --help")(_callback)
    return typer.main.get_command(app)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    app = application()
    if _COMPLETION in os.environ:  # a shell asks what fits; typer answers and exits
        app.main(args=words, prog_name="oeactl", complete_var=_COMPLETION)
    with ending(words) as end:
        try:
            with app.make_context("oeactl", words or ["--help"]) as context:
                end.code = app.invoke(context) or 0
        except typer.Exit as done:
            end.code = done.exit_code
        except _Complaint as complaint:
            raise _usage(complaint) from complaint
    return end.code


def _usage(complaint: Any) -> OeactlError:
    """What typer found wrong with the words, in our form."""
    path = complaint.ctx.command_path if getattr(complaint, "ctx", None) else "oeactl"
    return UsageError(complaint.format_message().rstrip("."), hint=f"{path} --help")
