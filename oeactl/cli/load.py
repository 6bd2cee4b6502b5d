"""How a load is chosen on the command line: its options, its prompts, and the driver that sends it.

Owns: which driver stands for which choice. Refuses: to measure. ``bench`` and whatever else measures use it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from oeactl.errors import OeactlError, UsageError

if TYPE_CHECKING:
    from oeactl.cli.common import Call
    from oeactl.cli.wiring import Wired
    from oeactl.core.inventory import Host, ServerSpec
    from oeactl.core.load import DatasetKind, Sweep
    from oeactl.core.run import Plan, Sending
    from oeactl.edges.prompt_files import PromptFile
    from oeactl.ports import Agent, Driver

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
    typer.Option(
        "--from",
        metavar="here|HOST",
        help="Send the load from this machine, through a tunnel, or from another of hosts.yaml.",
    ),
]
FromUrlOption = Annotated[
    str | None,
    typer.Option("--from-url", metavar="URL", help="With --from HOST: the server as that host reaches it."),
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

HERE = "here"
_DRIVERS = ("sglang", "light")
_APIS = ("generate", "completions", "chat")
_KINDS = ("random-ids", "natural", "shared-prefix")


@dataclass(frozen=True, kw_only=True)
class Load:
    """What was chosen. driver, api, dataset: None where nothing was said; file: one's own prompts.

    origin: ``here``, or another host's name; origin_url: the server as seen from that one, if not by the
    address of its host. timed: --rate or --duration, if one was given.
    """

    driver: Literal["sglang", "light"] | None = None
    api: Literal["generate", "completions", "chat"] | None = None
    dataset: DatasetKind | None = None
    file: PromptFile | None = None
    processes: int | None = None
    origin: str | None = None
    origin_url: str | None = None
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
            ("--from", self.origin),
            (self.timed or "", self.timed),
        )


def chosen_load(
    *,
    driver: str | None,
    api: str | None,
    dataset: str | None,
    processes: int | None,
    origin: str | None,
    origin_url: str | None = None,
    timed: str | None = None,
) -> Load:
    """Read the options. Raises UsageError."""
    from oeactl.edges.foreign import read_url
    from oeactl.edges.prompt_files import read_prompts

    if origin_url is not None and origin in (None, HERE):
        raise UsageError("--from-url says how another host reaches the server", hint="--from HOST")
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
        origin=origin,
        origin_url=read_url(origin_url) if origin_url else None,
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

    return Sending(
        api=load.api,
        processes=load.processes,
        origin=load.origin,
        origin_url=load.origin_url,
        **more,
    )


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
        origin_url=sending.origin_url,
    )
    if load.file is not None and load.file.sha256 != plan.sweep.dataset_sha256:
        raise UsageError("these are not the prompts that the run began with", where=given)
    return load


@contextmanager
def driver_of(call: Call, load: Load, here: Wired) -> Iterator[Driver]:
    """The driver for a settled load, with its tunnel or the machine it runs on. Raises Unreachable."""
    from oeactl import __version__
    from oeactl.edges.drivers.light import LightClient

    if load.driver == "sglang":
        yield here.driver()
        return
    with ExitStack() as stack:
        place = stack.enter_context(_place(call, load, here))
        yield LightClient(
            place.agent,
            python=place.python,
            api=load.api or "generate",
            version=__version__,
            url=place.url,
            env=place.env,
            cwd=place.cwd,
            api_key=here.api_key,
            processes=load.processes,
            prompts=load.file.prompts if load.file else (),
            runs_on=load.origin,
        )


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the light client runs, and by which URL the server is reached there; None: as on its host."""

    agent: Agent
    python: str
    url: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None


@contextmanager
def _place(call: Call, load: Load, here: Wired) -> Iterator[Place]:
    from oeactl.edges.agent_link import AgentLink
    from oeactl.edges.local import open_local

    host, spec = here.site.host, here.site.host.server
    if load.origin is None or spec is None or load.origin == host.name:
        if spec is None or spec.container is not None:  # its interpreter and folders are the container's
            yield Place(agent=here.agent, python="python3")
            return
        python = host.engine.python or "python3"
        yield Place(agent=here.agent, python=python, env=spec.env, cwd=spec.cwd)
    elif load.origin == HERE:
        with here.remote.forward(spec.port) as port:
            url = f"{spec.url.partition(':')[0]}://127.0.0.1:{port}"
            agent = AgentLink(open_local(), python=sys.executable)
            yield Place(agent=agent, python=sys.executable, url=url)
    else:
        with third_place(call, load, load.origin_url or _as_seen(host, spec), here.api_key) as place:
            yield place


@contextmanager
def third_place(call: Call, load: Load, url: str, api_key: str | None) -> Iterator[Place]:
    """Another host of hosts.yaml, from which the server at ``url`` is reached. Raises Unreachable."""
    from oeactl.cli.wiring import wired
    from oeactl.edges.reach import check_reach

    third = call.host(load.origin)
    with wired(call, third) as there:
        check_reach(there.agent, url, api_key=api_key)
        yield Place(agent=there.agent, python=third.engine.python or "python3", url=url)


def _as_seen(host: Host, spec: ServerSpec) -> str:
    """The server by its host's address. Raises UsageError where there is none."""
    if host.address is None:
        raise UsageError(
            f"{host.name} has no address, so how another host reaches its server is not known",
            where="--from",
            hint=f"--from-url http://ADDRESS:{spec.port}",
        )
    address = f"[{host.address}]" if ":" in host.address else host.address
    return f"{spec.url.partition(':')[0]}://{address}:{spec.port}"
