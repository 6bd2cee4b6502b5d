"""``oeactl quality``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import Call, HostOption, command

if TYPE_CHECKING:
    from oeactl.core.recording import Recording, Settings
    from oeactl.flows.quality import Recorded, Wanted
    from oeactl.ports import Recordings

UrlOption = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="Any OpenAI-compatible server, as seen from here; no host."),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="With --url: the served model, else the first.")
]
KeyOption = Annotated[
    str | None,
    typer.Option("--api-key-env", metavar="NAME", help="With --url: the variable that holds its API key."),
]
AgainstOption = Annotated[
    list[str],
    typer.Option("--against", metavar="RUN", help="Compare with this recording, or several of one build."),
]
RecordedOption = Annotated[
    str | None, typer.Option("--recorded", metavar="RUN", help="Record nothing; compare this one.")
]
PromptsOption = Annotated[
    int | None, typer.Option("--prompts", min=4, max=32, metavar="N", help="Of the 32, the first N.")
]
OutputOption = Annotated[
    int | None, typer.Option("--output-len", min=1, metavar="TOKENS", help="Tokens an answer; else 48.")
]
PassesOption = Annotated[
    int | None, typer.Option("--passes", min=2, max=5, metavar="N", help="Passes of each kind; else 3.")
]
ConcurrencyOption = Annotated[
    int | None, typer.Option("--concurrency", "-c", min=2, metavar="N", help="Requests at once; else 16.")
]
LabelOption = Annotated[
    str | None, typer.Option("--label", metavar="NAME", help="Name of the recording; else the recipes.")
]
TOP_LOGPROBS = 5


@command(
    "oeactl quality",
    "oeactl quality --against last",
    "oeactl quality --url http://127.0.0.1:8000 --label before",
)
def quality(
    call: Call,
    host: HostOption = None,
    url: UrlOption = None,
    model: ModelOption = None,
    api_key_env: KeyOption = None,
    against: AgainstOption = [],  # noqa: B006 - typer reads it
    recorded: RecordedOption = None,
    prompts: PromptsOption = None,
    output_len: OutputOption = None,
    passes: PassesOption = None,
    concurrency: ConcurrencyOption = None,
    label: LabelOption = None,
) -> None:
    """Record how the build that runs answers, alone and under load; say whether another one answers alike.

    Record the pristine build, patch, then record again --against the first. Never patches, never restarts.
    """
    from oeactl.edges.clock import SystemClock
    from oeactl.edges.recordings import RecordingsFolder
    from oeactl.flows.quality import against as compare
    from oeactl.render.quality import comparison_view, quality_document, recording_view

    _sensible(url, host, model, api_key_env, recorded, against)
    store = RecordingsFolder((call.root or Path.cwd()) / "results")
    baseline = tuple(store.load_recording(name) for name in against)
    given = {"output_len": output_len, "passes": passes, "concurrency": concurrency, "prompts": prompts}
    if recorded is not None:
        candidate, path = store.load_recording(recorded), ""
    else:
        wanted = _wanted(baseline, given, label)
        made = _record(call, store, wanted, host=host, url=url, model=model, api_key_env=api_key_env)
        candidate, path = made.recording, made.path
        call.show(recording_view(candidate, path, width=call.width))
    if not baseline:
        call.emit(quality_document(candidate, path, None, ""), lambda: "")
        return
    comparison, file = compare(store, baseline, candidate, SystemClock())
    call.emit(
        quality_document(candidate, path, comparison, file),
        lambda: comparison_view(comparison, file, width=call.width),
    )


def _sensible(
    url: str | None,
    host: str | None,
    model: str | None,
    api_key_env: str | None,
    recorded: str | None,
    against: list[str],
) -> None:
    from oeactl.errors import UsageError

    if url is not None and host is not None:
        raise UsageError("--url and --host name two servers", hint="give one of them")
    if url is None and (model is not None or api_key_env is not None):
        raise UsageError("--model and --api-key-env belong to --url", hint="a host has both in hosts.yaml")
    if url is not None and not url.startswith(("http://", "https://")):
        raise UsageError(f"'{url}' is no URL", where="--url", hint="--url http://127.0.0.1:8000")
    if recorded is not None and (not against or url is not None or host is not None):
        raise UsageError("--recorded compares, with --against, and asks no server", hint="--against RUN")


def _wanted(baseline: tuple[Recording, ...], given: dict[str, int | None], label: str | None) -> Wanted:
    """As the baseline was asked, unless told otherwise (which is refused, and says so)."""
    import secrets

    from oeactl import __version__
    from oeactl.core.prompts import PROMPTS
    from oeactl.flows.quality import Wanted

    like = baseline[0].settings if baseline else None
    count = given["prompts"] or (like.prompts if like else len(PROMPTS))
    texts = PROMPTS[:count]
    return Wanted(
        prompts=texts,
        settings=_settings(texts, like, given),
        token=secrets.token_hex(4),
        oeactl_version=__version__,
        label=label,
    )


def _settings(texts: tuple[str, ...], like: Settings | None, given: dict[str, int | None]) -> Settings:
    import msgspec

    from oeactl.errors import UsageError
    from oeactl.flows.quality import settings

    made = settings(
        texts,
        output_len=given["output_len"] or (like.output_len if like else 48),
        top_logprobs=like.top_logprobs if like else TOP_LOGPROBS,
        passes=given["passes"] or (like.passes if like else 3),
        concurrency=given["concurrency"] or (like.concurrency if like else min(16, len(texts))),
    )
    if like is not None and msgspec.structs.replace(made, passes=like.passes) != like:
        raise UsageError(
            "the recording of --against was asked in another way",
            where="--against",
            hint="leave --prompts, --output-len and --concurrency out",
        )
    return made


def _record(
    call: Call,
    store: Recordings,
    wanted: Wanted,
    *,
    host: str | None,
    url: str | None,
    model: str | None,
    api_key_env: str | None,
) -> Recorded:
    from oeactl.cli.wiring import wired
    from oeactl.flows.quality import record_host

    if url is None:
        with wired(call, call.host(host)) as here:
            return record_host(here.site, store, wanted)
    return _at_url(call, store, wanted, url, model, _key(api_key_env))


def _at_url(
    call: Call, store: Recordings, wanted: Wanted, url: str, model: str | None, key: str | None
) -> Recorded:
    from oeactl.edges.agent_link import AgentLink
    from oeactl.edges.clock import SystemClock
    from oeactl.edges.engines.openai import OpenAIEngine
    from oeactl.edges.local import open_local
    from oeactl.flows.quality import record_url

    remote = open_local("@local")
    try:
        engine = OpenAIEngine(AgentLink(remote), url=url.rstrip("/"), model=model, api_key=key)
        return record_url(engine, url, store, wanted, clock=SystemClock(), progress=call.progress)
    finally:
        remote.close()


def _key(name: str | None) -> str | None:
    import os

    from oeactl.errors import UsageError

    if name is None:
        return None
    if not os.environ.get(name):
        raise UsageError(f"the variable {name} is not set", where="--api-key-env", hint=f"export {name}=…")
    return os.environ[name]
