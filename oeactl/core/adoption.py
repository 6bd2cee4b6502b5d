"""From a server that runs already, or from the script that begins it, to its entry in hosts.yaml.

Owns: what is taken over, and what could not be learned. Refuses: to guess; what is chosen without evidence is
said to be chosen. The value of a secret becomes ``${NAME}``, a variable of this machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from oeactl.core.host import Value
from oeactl.core.launch import model_of
from oeactl.core.redact import REDACTED, is_secret_name
from oeactl.errors import Refused, UsageError

#: Variables that say how an engine runs; of all others only the names are told.
ALLOWED = re.compile(
    r"PYTHON\w*|VIRTUAL_ENV|CONDA_PREFIX|LD_LIBRARY_PATH|LD_PRELOAD|LIBRARY_PATH|CPATH|CC|CXX|TMPDIR|XDG_CACHE_HOME"
    r"|TOKENIZERS_PARALLELISM|MAX_JOBS|ENGINE_STUBS|API_KEY|OPENAI_API_KEY|(?:HTTPS?|NO|ALL)_PROXY"
    r"|(?:SGLANG|SGL|VLLM|HF|HUGGINGFACE|HUGGING_FACE|TRANSFORMERS|MODELSCOPE|TORCH|TORCHINDUCTOR|TORCHDYNAMO"
    r"|PYTORCH|TRITON|CUDA|CUDNN|CUBLAS|NVIDIA|NVTE|NVSHMEM|NCCL|GLOO|UCX|UCC|OMP|MKL|KMP|OPENBLAS|NUMEXPR|NUMBA"
    r"|FLASHINFER|DEEP_?GEMM|DG|DEEPEP|MC|MOONCAKE|ROCM|HIP|HSA|RCCL|AITER|OMPI|FI|GOMP)_\w+"
)
HERE = ("0.0.0.0", "::", "127.0.0.1", "::1", "::ffff:0.0.0.0", "::ffff:127.0.0.1")
CONTAINERS = ("the container", "a Kubernetes pod")
UNIT = "the systemd unit "
DEFAULT_PORT = 30000


class FoundServer(Value, frozen=True, kw_only=True):
    """A running server as its host's /proc tells. argv with the interpreter, secrets replaced.

    environment: its variables, secrets replaced. base_environment: what oeactl would hand down by itself.
    interpreter: as it was called, absolute. keeper: the unit or container that it lives in, else "".
    """

    pid: int
    argv: tuple[str, ...]
    secret_flags: tuple[str, ...]
    cwd: str | None
    executable: str | None
    interpreter: str | None
    environment: dict[str, str]
    base_environment: dict[str, str]
    log: str | None
    address: str | None
    port: int | None
    keeper: str
    parents: tuple[str, ...]
    gpus: int | None
    age_s: float
    processes: int


class Adopted(Value, frozen=True, kw_only=True):
    """An entry to be. entry: keys ``engine`` and ``server``, as YAML has them. learned: what, and from where.

    unknown: what could not be inferred, each with what it means or what was chosen instead. left_out: names
    of variables that were not taken over. secrets: variables that must be set on this machine from now on.
    """

    entry: dict[str, Any]
    learned: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    engine: str | None = None
    model: str | None = None


def adopt_process(found: FoundServer, *, keep: Sequence[str] = ()) -> Adopted:
    """The entry of a running server. keep: names of further variables. Raises UsageError where it is none."""
    if found.keeper.startswith(CONTAINERS):
        raise Refused(
            f"pid {found.pid} lives in {found.keeper}: its interpreter and its files are the container's",
            where=f"pid {found.pid}",
            hint=f"oeactl adopt --container {found.keeper.rpartition(' ')[2]}"
            if found.keeper.startswith("the container")
            else "write its entry by hand, with start and stop commands (docs/server.md)",
        )
    python, unknown = _python(found)
    argv, flags = secret_words(found.argv[1:], found.secret_flags)
    taken, left_out, secrets = _environment(found, keep)
    server: dict[str, Any] = {"url": _url(found, unknown)}
    if found.cwd and found.cwd != "/":
        server["cwd"] = found.cwd
    if found.gpus:
        server["gpus"] = found.gpus
    else:
        unknown.append("server.gpus: nvidia-smi tells of no memory of its; tok/s per GPU are not shown")
    if taken:
        server["env"] = taken
    if found.keeper.startswith(UNIT):
        server = {"manager": "systemd", "unit": found.keeper.removeprefix(UNIT), **server}
    server["argv"] = list(argv)
    server["log"] = found.log or _log(found, unknown)
    if "--api-key" in flags:
        server["api_key_env"] = flags["--api-key"]
    if not found.environment:
        unknown.append("server.env: its environment is not to be seen (another user's, or overwritten)")
    return Adopted(
        entry={"engine": {"python": python}, "server": server},
        learned=_learned(found),
        unknown=tuple(unknown),
        left_out=left_out,
        secrets=(*flags.values(), *secrets),
        model=model_of(argv),
    )


def _python(found: FoundServer) -> tuple[str, list[str]]:
    unknown: list[str] = []
    real = PurePosixPath(found.executable or "").name
    if not real.startswith(("python", "pypy")):
        raise UsageError(
            f"pid {found.pid} is no Python program, so it is not known how its engine is begun",
            where=found.executable,
            hint="name the engine's own process: --pid N",
        )
    if len(found.argv) < 2:
        raise UsageError(
            f"pid {found.pid} has overwritten its command line",
            where=found.argv[0] if found.argv else None,
            hint="adopt the script that begins it: --script launch.sh",
        )
    if found.interpreter is None or found.interpreter == found.executable != found.argv[0]:
        unknown.append("engine.python: only the real file is known; a virtual environment would be lost")
    return found.interpreter or str(found.executable), unknown


def _learned(found: FoundServer) -> tuple[str, ...]:
    hours = found.age_s / 3600
    lines = [f"pid {found.pid}, for {hours:.1f} h, {found.processes} processes: {' '.join(found.argv)[:300]}"]
    if found.keeper:
        lines.append(f"it lives in {found.keeper}, which may start it again when it is stopped")
    elif found.parents:
        lines.append(f"begun by {found.parents[0]}")
    else:
        lines.append("detached: nothing on the host starts it again")
    return tuple(lines)


def secret_words(argv: Sequence[str], flags: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """argv with ``${NAME}`` where a secret was replaced, and flag -> NAME."""
    names = {flag: re.sub(r"\W+", "_", flag.strip("-")).upper() for flag in flags}
    words: list[str] = []
    for before, word in zip(("", *argv), argv, strict=False):
        if word == REDACTED and before in names:
            words.append(f"${{{names[before]}}}")
        elif word.endswith(f"={REDACTED}") and word.partition("=")[0] in names:
            flag = word.partition("=")[0]
            words.append(f"{flag}=${{{names[flag]}}}")
        else:
            words.append(word)
    return tuple(words), names


def _environment(
    found: FoundServer, keep: Sequence[str]
) -> tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]:
    """(taken over, names left out, names of secrets). What oeactl hands down anyway need not be written."""
    taken: dict[str, str] = {}
    left: list[str] = []
    secrets: list[str] = []
    for name, value in found.environment.items():
        if found.base_environment.get(name) == value or name.startswith("OEACTL_"):
            continue
        inherited = name in found.base_environment
        if not (inherited or name in keep or ALLOWED.fullmatch(name)) or "${" in value:
            left.append(name)
        elif is_secret_name(name) and value == REDACTED:
            taken[name] = f"${{{name}}}"
            secrets.append(name)
        else:
            taken[name] = value
    return taken, tuple(left), tuple(secrets)


def _url(found: FoundServer, unknown: list[str]) -> str:
    scheme = "https" if any(word.startswith("--ssl-keyfile") for word in found.argv) else "http"
    if found.port is None:
        unknown.append(f"server.url: it does not listen yet; port {DEFAULT_PORT} was chosen")
        return f"{scheme}://127.0.0.1:{DEFAULT_PORT}"
    host = "127.0.0.1" if found.address in (None, *HERE) else str(found.address)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{found.port}"


def _log(found: FoundServer, unknown: list[str]) -> str:
    home = found.base_environment.get("HOME", "/tmp")
    folder = "/var/log/oeactl" if home == "/root" else f"{home}/.local/state/oeactl"
    chosen = f"{folder}/server-{found.port or DEFAULT_PORT}.log"
    unknown.append(f"server.log: its output goes to no file (a terminal, a pipe); {chosen} was chosen")
    return chosen
