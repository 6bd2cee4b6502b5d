"""A server by its URL, wired: what a sweep needs where there is no hosts.yaml."""

from __future__ import annotations

import getpass
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from oeactl.cli.load import Load, Place, third_place, with_dataset
from oeactl.core.host import Holder
from oeactl.core.inventory import Host
from oeactl.edges.agent_link import AgentLink
from oeactl.edges.clock import SystemClock
from oeactl.edges.drivers.light import LightClient
from oeactl.edges.foreign import Found, NoFiles, find, read_url
from oeactl.edges.local import open_local
from oeactl.edges.telemetry import AgentTelemetry
from oeactl.errors import UsageError
from oeactl.flows.bench_url import Foreign
from oeactl.flows.describe import gpus_of
from oeactl.flows.site import Site

if TYPE_CHECKING:
    from oeactl.cli.common import Call
    from oeactl.core.load import Sweep
    from oeactl.ports import Driver


@dataclass(frozen=True, kw_only=True)
class There:
    """What was found at the URL, and who measures it."""

    site: Site
    foreign: Foreign
    driver: Driver
    with_dataset: Callable[[Sweep], Sweep]


@contextmanager
def foreign_at(
    call: Call, url: str, load: Load, *, model: str | None, api_key_env: str | None
) -> Iterator[There]:
    """See what answers at ``url`` and choose how it is asked. Raises UsageError, Unreachable."""
    url, key = read_url(url), _key(api_key_env)
    agent = AgentLink(open_local(), python=sys.executable, keep=True)
    try:
        call.progress.step(f"looking at {url}")
        with _sender(call, agent, url, load, key) as sender:
            yield _there(call, agent, sender, url, load, model, key)
    finally:
        agent.close()


@contextmanager
def _sender(call: Call, agent: AgentLink, url: str, load: Load, key: str | None) -> Iterator[Place]:
    """Where the load is sent from: here, or another host of hosts.yaml."""
    if load.origin is None:
        yield Place(agent=agent, python=sys.executable)
        return
    with third_place(call, load, load.origin_url or url, key) as place:
        yield place


def _there(
    call: Call, agent: AgentLink, sender: Place, url: str, load: Load, model: str | None, key: str | None
) -> There:
    from oeactl import __version__

    found, engine, server = find(agent, url, model=model, api_key=key)
    load = _settled(load, found)
    driver = LightClient(
        sender.agent,
        python=sender.python,
        api=load.api or found.api,
        version=__version__,
        url=sender.url,
        runs_on=load.origin,
        api_key=key,
        processes=load.processes,
        prompts=load.file.prompts if load.file else (),
    )
    foreign = Foreign(
        url=url,
        server=server,
        engine=engine,
        kind=found.kind,
        version=found.version,
        info=found.info,
        host=found.host,
        model=found.model,
        vocabulary=found.vocabulary,
        gpus=gpus_of(found.info),
    )
    return There(
        site=_site(call, found, AgentTelemetry(agent, url=url, api_key=key, machine=found.is_here)),
        foreign=foreign,
        driver=driver,
        with_dataset=partial(with_dataset, load=load),
    )


def _settled(load: Load, found: Found) -> Load:
    """Random ids where their range is known and a server guesses no tokens; else natural text."""
    if load.dataset is not None:
        return load
    ids = found.vocabulary is not None and (load.api or found.api) != "chat"
    drafts = bool(found.info.get("speculative_algorithm"))
    return replace(load, dataset="random-ids" if ids and not drafts else "natural")


def _site(call: Call, found: Found, telemetry: AgentTelemetry) -> Site:
    return Site(
        host=Host(name=found.host.name),
        files=NoFiles(),
        server=None,
        engine=None,
        clock=SystemClock(),
        progress=call.progress,
        prompt=call.prompt(False),
        holder=Holder(user=getpass.getuser(), host=platform.node(), pid=os.getpid()),
        telemetry=telemetry,
    )


def _key(name: str | None) -> str | None:
    if name is None:
        return None
    if not os.environ.get(name):
        raise UsageError(f"the variable {name} is not set", where="--api-key-env", hint=f"export {name}=…")
    return os.environ[name]
