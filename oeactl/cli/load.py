"""How a load is chosen on the command line: its options, its prompts, and the driver that sends it.

Owns: which driver stands for which choice. Refuses: to measure. ``bench`` and whatever else measures use it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from oeactl.errors import OeactlError, UsageError

if TYPE_CHECKING:
    from oeactl.cli.wiring import Wired
    from oeactl.core.load import DatasetKind, Sweep
    from oeactl.core.run import Plan, Sending
    from oeactl.edges.prompt_files import PromptFile
    from oeactl.ports import Driver

DriverOption = Annotated[
    str | None,
    typer.Option("--driver", metavar="sglang|light", help="Who sends the load; else SGLang's own client."),
]
ApiOption = Annotated[
    str | None,
    typer.Option("--api", metavar="generate|completions|chat", help="What the light client asks by."),
]
DatasetOption = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="KIND|FILE",
        help="random-ids, natural, shared-prefix, or your JSON lines. Else random-ids; natural with drafts.",
    ),
]
ProcessesOption = Annotated[
    int | None,
    typer.Option("--client-processes", min=1, metavar="N", help="Of the light client; else as needed."),
]
FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="here", help="Send the load from this machine, through a tunnel."),
]

UrlOption = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="A server that is up, by its URL alone."),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="With --url: which of the models it serves.")
]
KeyOption = Annotated[
    str | None,
    typer.Option("--api-key-env", metavar="NAME", help="With --url: the variable that holds its key."),
]

_DRIVERS = ("sglang", "light")
_APIS = ("generate", "completions", "chat")
_KINDS = ("random-ids", "natural", "shared-prefix")


@dataclass(frozen=True, kw_only=True)
class Load:
    """What was chosen. driver, api, dataset: None where nothing was said; file: one's own prompts.

    timed: --rate or --duration, if one was given.
    """

    driver: Literal["sglang", "light"] | None = None
    api: Literal["generate", "completions", "chat"] | None = None
    dataset: DatasetKind | None = None
    file: PromptFile | None = None
    processes: int | None = None
    here: bool = False
    timed: str | None = None

    @property
    def needs_light(self) -> str | None:
        """The option that only the light client knows, if one was given."""
        return next((name for name, given in self._own() if given), None)

    def _own(self) -> tuple[tuple[str, Any], ...]:
        return (
            ("--dataset", self.dataset not in (None, "random-ids")),
            ("--api", self.api),
            ("--client-processes", self.processes),
            ("--from", self.here),
            (self.timed or "", self.timed),
        )


def chosen_load(
    *,
    driver: str | None,
    api: str | None,
    dataset: str | None,
    processes: int | None,
    origin: str | None,
    timed: str | None = None,
) -> Load:
    """Read the options. Raises UsageError."""
    from oeactl.edges.prompt_files import read_prompts

    if origin not in (None, "here"):
        raise UsageError(f"--from {origin} is not known", hint="--from here, or leave it out: on the host")
    file = None
    if dataset is not None and dataset not in _KINDS:
        if not Path(dataset).is_file():
            raise UsageError(
                f"'{dataset}' is neither a dataset nor a file", hint=f"{', '.join(_KINDS)}, or FILE"
            )
        file, dataset = read_prompts(Path(dataset)), "file"
    load = Load(
        driver=_one_of("--driver", driver, _DRIVERS),
        api=_one_of("--api", api, _APIS),
        dataset=dataset,  # type: ignore[arg-type]  # one of _KINDS, or file
        file=file,
        processes=processes,
        here=origin == "here",
        timed=timed,
    )
    if load.driver == "sglang" and load.needs_light:
        raise UsageError(f"{load.needs_light} is for the light client", hint="--driver light")
    return load


def _one_of(option: str, given: str | None, known: tuple[str, ...]) -> Any:
    if given is not None and given not in known:
        raise UsageError(f"{option} {given} is not known", hint=f"{option} {'|'.join(known)}")
    return given


def settled_load(load: Load, here: Wired) -> Load:
    """Fill in what was not said. A server that drafts gets natural text: of random ids it guesses none."""
    if load.dataset is None:
        load = replace(load, dataset="natural" if load.driver != "sglang" and _drafts(here) else "random-ids")
    driver = load.driver or ("light" if load.needs_light else "sglang")
    return replace(load, driver=driver)


def _drafts(here: Wired) -> bool:
    """Whether the server speculates. One that does not answer is not up, which the flow tells better."""
    if here.site.engine is None:
        return False
    try:
        return bool(here.site.engine.info().get("speculative_algorithm"))
    except OeactlError:
        return False


def with_dataset(sweep: Sweep, load: Load) -> Sweep:
    """The sweep with its prompts named, and no more requests than a file has prompts. Raises UsageError."""
    import msgspec

    kind = load.dataset or "random-ids"
    sweep = msgspec.structs.replace(sweep, dataset=kind)
    if load.file is None:
        return sweep
    there = len(load.file.prompts)
    points = []
    for point in sweep.points:
        if there < point.concurrency and point.rate is None:
            raise UsageError(
                f"{there} prompts cannot keep {point.concurrency} in flight",
                where=load.file.name,
                hint=f"--concurrency {there}, or a file with more prompts",
            )
        points.append(msgspec.structs.replace(point, requests=min(point.requests, there)))
    return msgspec.structs.replace(
        sweep, points=tuple(points), dataset_file=load.file.name, dataset_sha256=load.file.sha256
    )


def sending_of(load: Load, **more: Any) -> Sending:
    """What going on with a bench needs to know of how it was asked for; more: as in Sending."""
    from oeactl.core.run import Sending

    return Sending(api=load.api, processes=load.processes, origin="here" if load.here else None, **more)


def load_of(plan: Plan, dataset: Path | None = None) -> Load:
    """The load of a run that is taken up again. dataset: where its prompts are, if not here by their name.

    Raises UsageError, also where they are other prompts.
    """
    from oeactl.core.run import Sending

    sending = plan.sending or Sending(api=plan.design.api if plan.design else None)
    light, kind = plan.driver == "light", plan.sweep.dataset
    given = str(dataset or plan.sweep.dataset_file) if kind == "file" else kind
    load = chosen_load(
        driver=plan.driver,
        api=sending.api if light else None,
        dataset=given if light else None,
        processes=sending.processes,
        origin=sending.origin,
    )
    if load.file is not None and load.file.sha256 != plan.sweep.dataset_sha256:
        raise UsageError("these are not the prompts that the run began with", where=given)
    return load


@contextmanager
def driver_of(load: Load, here: Wired) -> Iterator[Driver]:
    """The driver for a settled load, with its tunnel where it has one."""
    from oeactl import __version__
    from oeactl.edges.agent_link import AgentLink
    from oeactl.edges.drivers.light import LightClient
    from oeactl.edges.local import open_local

    if load.driver == "sglang":
        yield here.driver()
        return
    host, spec = here.site.host, here.site.host.server
    agent, python, url = here.agent, host.engine.python or "python3", None
    env, cwd = (dict(spec.env), spec.cwd) if spec else ({}, None)
    with ExitStack() as stack:
        if load.here and spec is not None:
            port = stack.enter_context(here.remote.forward(spec.port))
            url = f"{spec.url.partition(':')[0]}://127.0.0.1:{port}"
            agent, python, env, cwd = AgentLink(open_local(), python=sys.executable), sys.executable, {}, None
        yield LightClient(
            agent,
            python=python,
            api=load.api or "generate",
            version=__version__,
            url=url,
            env=env,
            cwd=cwd,
            api_key=here.api_key,
            processes=load.processes,
            prompts=load.file.prompts if load.file else (),
        )
