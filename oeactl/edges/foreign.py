"""A server that is known by its URL alone: what answers there, and what this machine shows of it.

Owns: finding out whether it is SGLang or something with OpenAI's API, its model, its vocabulary; its process
and machine where it listens here. Refuses: to change it, to ask a host it was not told of, and to guess.
"""

from __future__ import annotations

import os
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from oeactl.agent import machine
from oeactl.core.evidence import leader
from oeactl.core.host import (
    Holder,
    Journal,
    Launch,
    Process,
    ProofFile,
    ServerState,
    Survey,
    SurveyRequest,
    Transaction,
    Value,
    Written,
)
from oeactl.core.provenance import HostRecord, ModelRecord
from oeactl.edges.engines.openai import OpenAIEngine
from oeactl.edges.engines.sglang import SglangEngine
from oeactl.edges.servers.process import ProcessServer
from oeactl.errors import Refused, Unreachable, UsageError
from oeactl.ports import Agent, Engine, Failed, Progress, Ready, Server

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NOWHERE = "/nonexistent/oeactl"  # there is no record of a server that oeactl did not start
_FORWARDERS = ("ssh", "sshd", "docker-proxy", "rootlessport", "kubectl", "socat")


class Found(Value, frozen=True, kw_only=True):
    """What answers at a URL. vocabulary: of the model's config, where this machine has it.

    is_here: the server listens on this machine.
    """

    kind: Literal["sglang", "openai"]
    api: Literal["generate", "completions", "chat"]
    version: str | None
    info: dict[str, Any]
    model: ModelRecord
    host: HostRecord
    vocabulary: int | None
    is_here: bool


class Unseen:
    """ports.Server of one whose machine cannot be seen."""

    def state(self, *, health: bool = True) -> ServerState:
        return ServerState(recorded=None, listener=None)

    def check(self, launch: Launch, *, alone: bool = False) -> None:
        raise _not_ours()

    def start(self, launch: Launch) -> Process:
        raise _not_ours()

    def await_ready(self, process: Process, launch: Launch, progress: Progress) -> Ready | Failed:
        raise _not_ours()

    def stop(self, progress: Progress, *, foreign: bool = False) -> None:
        raise _not_ours()

    def log_lines(self, count: int) -> tuple[str, ...]:
        return ()

    def follow_log(self, count: int) -> Any:
        raise _not_ours()

    def proofs(self) -> tuple[ProofFile, ...]:
        return ()


class Here(Unseen):
    """ports.Server of one that listens on this machine: its process can be seen, and nothing else."""

    def __init__(self, agent: Agent, url: str) -> None:
        self._server = ProcessServer(agent, root=lambda: _NOWHERE, state_dir=_NOWHERE, url=url, log="")

    def state(self, *, health: bool = True) -> ServerState:
        return self._server.state(health=health)


class NoFiles:
    """ports.Files where there are none to see."""

    def survey(self, request: SurveyRequest) -> Survey:
        raise _not_ours()

    def write(self, transaction: Transaction) -> Written:
        raise _not_ours()

    def recover(self, *, root: str, state_dir: str | None, force: bool = False) -> Journal:
        raise _not_ours()

    def lease(
        self, *, root: str, state_dir: str | None, operation: str, what: str, holder: Holder, lease_s: float
    ) -> None:
        raise _not_ours()

    def settle(self, *, root: str, state_dir: str | None, operation: str) -> None:
        raise _not_ours()


def _not_ours() -> Refused:
    return Refused("this server is known by its URL alone", hint="describe its host in hosts.yaml")


def read_url(text: str) -> str:
    """A server's base URL, without the /v1 that people add. Raises UsageError."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        raise UsageError(f"'{text}' is no URL of a server", hint="--url http://127.0.0.1:30000")
    if parts.username or parts.password:
        raise UsageError("a URL with a password in it", hint="--api-key-env NAME, of a variable")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"


def find(agent: Agent, url: str, *, model: str | None, api_key: str | None) -> tuple[Found, Engine, Server]:
    """See what answers at ``url``, asked from this machine. Raises Unreachable."""
    server: Server = Unseen()
    if urlsplit(url).hostname in _LOOPBACK:
        here = Here(agent, url)
        process = leader(here.state(health=False))
        if process is not None and _name(process.pid) not in _FORWARDERS:
            server = here
    is_here = isinstance(server, Here)
    sglang = SglangEngine(agent, url=url, api_key=api_key)
    try:
        info = sglang.info()
    except Unreachable:
        return (
            _openai(agent, url, model, api_key, is_here),
            OpenAIEngine(agent, url=url, model=model, api_key=api_key),
            server,
        )
    path = _text(info.get("model_path"))
    found = Found(
        kind="sglang",
        api="generate",
        version=_text(info.get("version")),
        info=info,
        model=_model(info, model or _text(info.get("served_model_name")), path, is_here),
        host=_host(url, is_here),
        vocabulary=_vocabulary(path, is_here),
        is_here=is_here,
    )
    return found, sglang, server


def _openai(agent: Agent, url: str, model: str | None, api_key: str | None, is_here: bool) -> Found:
    engine = OpenAIEngine(agent, url=url, model=model, api_key=api_key)
    info = engine.info()
    told = engine.model_info()
    if model is not None and not told:
        names = ", ".join(str(one.get("id")) for one in info["models"]) or "none"
        raise UsageError(f"no model is called '{model}' there", where=url, hint=f"models: {names}")
    name, path = _text(told.get("id")) or model, _text(told.get("root"))
    if name is None:
        raise UsageError("the server names no model", where=url, hint="--model NAME")
    (reply,) = engine.complete(prompts=[[11, 12]], output_len=1, concurrency=1)
    return Found(
        kind="openai",
        api="chat" if reply.status in (404, 405) else "completions",
        version=_text(info.get("version")),
        info=info,
        model=_model(told, name, path, is_here),
        host=_host(url, is_here),
        vocabulary=_vocabulary(path, is_here) if reply.status == 200 else None,
        is_here=is_here,
    )


def _model(info: dict[str, Any], name: str | None, path: str | None, is_here: bool) -> ModelRecord:
    import hashlib
    import json

    config = _config(path, is_here)
    text = json.dumps(config, sort_keys=True) if config else None
    return ModelRecord(
        path=path,
        served_name=name,
        revision=_text(info.get("revision")),
        quantization=_text(info.get("quantization")),
        architectures=tuple(str(one) for one in config.get("architectures") or ()),
        config_sha256=hashlib.sha256(text.encode()).hexdigest() if text else None,
    )


def _config(path: str | None, is_here: bool) -> dict[str, Any]:
    """The model's config.json, where its folder, or the hub's cache, is on this machine."""
    if path is None or not is_here:
        return {}
    config = machine.model_facts(path, None, dict(os.environ))["config"]
    return config if isinstance(config, dict) else {}


def _vocabulary(path: str | None, is_here: bool) -> int | None:
    config = _config(path, is_here)
    nested = config.get("text_config")
    size = {**config, **(nested if isinstance(nested, dict) else {})}.get("vocab_size")
    return size if isinstance(size, int) and size > 0 else None


def _host(url: str, is_here: bool) -> HostRecord:
    name = urlsplit(url).netloc
    if not is_here:
        return HostRecord(name=name, hostname=name, kernel=None, cpus=None, memory_bytes=None, boot_id=None)
    facts = machine.facts(_NOWHERE, machine.GpuQuery())
    kept = ("hostname", "kernel", "cpus", "memory_bytes", "boot_id", "gpus")
    return msgspec.convert({"name": name, **{key: facts[key] for key in kept}}, HostRecord)


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:
        return ""


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
