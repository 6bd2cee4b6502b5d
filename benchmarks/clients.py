"""Load clients side by side: CPU a token, tokens a second, and how wrong their gaps between tokens are.

    python benchmarks/clients.py [--streams 64,256,512,1024] [--clients light,...] [--itl-ms 20]
        [--vllm PYTHON] [--aiperf PROGRAM] [--sglang-rust FOLDER]

One scripted server (pace.py) streams every answer at a fixed pace, so the ideal is known: streams / gap. It
notes when it sent each token: an error is the difference between a gap as the client reports it and as it
was. Server and client have a core each where there are two; with ``--first`` (root) nobody else gets one
meanwhile. CPU is that of all the client's processes between its first request and its last token, as the
server saw them: neither imports nor reports count.

light, light-oai: ours, by ``/generate`` and by ``/v1/completions``. sglang: the Python client of the engine
that serves on this CPU, by ``/generate``; sglang-rust: its Rust client (0.5.22 on), out of an unpacked wheel,
shown and not barred. vllm, aiperf: by ``/v1/completions``, each out of a venv of its own.

Owns: the runs, the table. Bars: the least CPU a token and the smallest error of the Python clients at every
number of streams; at 512 at least 0.97 of the ideal.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent)]

from pace import FIRST, INPUT_LEN, OUTPUT_LEN, TTFT_S, serve  # noqa: E402  # beside this file
from spent import Failed, measured  # noqa: E402

WAVES = 3
BAR_IDEAL = 0.97
OURS = ("light", "light-oai")
NOT_BARRED = ("sglang-rust",)
#: ``vllm bench serve`` without what else the ``vllm`` program imports at its start.
VLLM = (
    "import argparse; from vllm.benchmarks.serve import add_cli_args, main; "
    "parser = argparse.ArgumentParser(); add_cli_args(parser); main(parser.parse_args())"
)

Pairs = list[tuple[list[float], list[float]]]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What every client is run against and with. core: its own, None on a machine of one."""

    url: str
    core: int | None
    given: argparse.Namespace


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Of one client at one number of streams. errors: |gap - what it was| in milliseconds, sorted."""

    client: str
    streams: int
    tokens: int
    tokens_per_s: float
    errors: list[float] = field(repr=False)
    cpu_s: float = 0.0
    server_late_ms: float = 0.0

    def error(self, share: float) -> float:
        return self.errors[min(len(self.errors) - 1, int(share * len(self.errors)))]


# -- the clients ------------------------------------------------------------------------------------


def light(bench: Bench, streams: int, *, api: str = "generate", name: str = "light") -> Figures:
    from oeactl.edges import load_program
    from oeactl.loadgen.prompts import Prompts

    order = {
        "url": bench.url,
        "api": api,
        "model": "m",
        "concurrency": streams,
        "requests": WAVES * streams,
        "output_len": OUTPUT_LEN,
        "seed": 1,
        "deadline_s": 300.0,
        "texts": 0,
        "prompts": {"kind": "ids", "length": INPUT_LEN, "low": 10, "high": 400},
    }
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder, "in"), Path(folder, "out")
        given.write_bytes(load_program.begin(order))
        words = {"{in}": str(given), "{out}": str(out)}
        argv = [words.get(word, word) for word in load_program.argv(sys.executable)]
        spent, stats = measured(argv, {}, bench.url, bench.core)
        rows = load_program.result(out.read_bytes())["rows"]
    complete([row["error"] for row in rows], streams)
    tokens = sum(row["tokens"] for row in rows)
    duration = max(row["sent_s"] + row["e2e_s"] for row in rows) - min(row["sent_s"] for row in rows)
    sent = {tuple(prompt): times for prompt, times in zip(stats["prompts"], stats["sent"], strict=True)}
    prompts = Prompts(order["prompts"], seed=1, output_len=OUTPUT_LEN)
    pairs = [(row["itls_s"], sent[tuple(prompts[row["number"]][0])]) for row in rows]
    return figures(name, streams, tokens, tokens / duration, pairs, spent, stats)


def light_oai(bench: Bench, streams: int) -> Figures:
    return light(bench, streams, api="completions", name="light-oai")


def sglang_words(bench: Bench, streams: int, model: Path, out: Path) -> list[str]:
    """What SGLang's two clients both understand."""
    return [
        *("--backend", "sglang", "--base-url", bench.url, "--model", str(model), "--tokenizer", str(model)),
        *("--dataset-name", "random-ids", "--tokenize-prompt", "--random-range-ratio", "1.0"),
        *("--random-input-len", str(INPUT_LEN), "--random-output-len", str(OUTPUT_LEN)),
        *("--num-prompts", str(WAVES * streams), "--max-concurrency", str(streams), "--seed", "1"),
        *("--warmup-requests", "0", "--disable-tqdm", "--output-file", str(out), "--output-details"),
    ]


def sglang(bench: Bench, streams: int) -> Figures:
    from demo import world

    engine = world.installed()
    env = {**world.server_env(engine.site), "OMP_NUM_THREADS": "1"}
    argv = [str(engine.python), "-m", "sglang.benchmark.serving"]
    return of_result("sglang", argv, env, bench, streams, engine.model)


def sglang_rust(bench: Bench, streams: int) -> Figures:
    from demo import world

    engine = world.installed()
    argv = [str(engine.python), "-m", "sglang.benchmark.rust_client"]
    env = {"PYTHONPATH": bench.given.sglang_rust}
    return of_result("sglang-rust", argv, env, bench, streams, engine.model)


def of_result(
    name: str, argv: list[str], env: dict[str, str], bench: Bench, streams: int, model: Path
) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.jsonl")
        spent, stats = measured(
            [*argv, *sglang_words(bench, streams, model, out)], env, bench.url, bench.core
        )
        result = json.loads(out.read_text().splitlines()[-1])
    return of_texts(name, streams, result, spent, stats)


def vllm(bench: Bench, streams: int) -> Figures:
    from demo import world

    model = str(world.installed().model)
    with tempfile.TemporaryDirectory() as folder:
        argv = [
            *(bench.given.vllm, "-c", VLLM, "--backend", "vllm", "--base-url", bench.url),
            *("--model", "m", "--tokenizer", model, "--dataset-name", "random", "--ignore-eos"),
            *("--random-input-len", str(INPUT_LEN), "--random-output-len", str(OUTPUT_LEN)),
            *("--num-prompts", str(WAVES * streams), "--max-concurrency", str(streams), "--seed", "1"),
            *("--ready-check-timeout-sec", "0", "--disable-tqdm", "--save-result", "--save-detailed"),
            *("--result-dir", folder, "--result-filename", "out.json"),
        ]
        env = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1"}
        spent, stats = measured(argv, env, bench.url, bench.core)
        result = json.loads(Path(folder, "out.json").read_text())
    return of_texts("vllm", streams, result, spent, stats)


def of_texts(name: str, streams: int, result: dict[str, Any], spent: float, stats: dict[str, Any]) -> Figures:
    """A result whose texts end in the number that the server gave the request."""
    complete(result["errors"], streams)
    numbers = [int(text[-8:]) for text in result["generated_texts"]]
    pairs = [(gaps, stats["sent"][number]) for gaps, number in zip(result["itls"], numbers, strict=True)]
    tokens = result["total_output_tokens"]
    return figures(name, streams, tokens, tokens / result["duration"], pairs, spent, stats)


def aiperf(bench: Bench, streams: int) -> Figures:
    from demo import world

    with tempfile.TemporaryDirectory() as folder:
        argv = [
            *(bench.given.aiperf, "profile", "-m", "m", "--url", bench.url, "--ui", "none"),
            *("--endpoint-type", "completions", "--streaming", "--tokenizer", str(world.installed().model)),
            *("--concurrency", str(streams), "--request-count", str(WAVES * streams)),
            *("--isl", str(INPUT_LEN), "--osl", str(OUTPUT_LEN), "--extra-inputs", "ignore_eos:true"),
            *("--use-legacy-max-tokens", "--use-server-token-count", "--artifact-dir", folder),
            *("--no-server-metrics", "--no-gpu-telemetry"),  # the others collect neither
        ]
        spent, stats = measured(argv, {}, bench.url, bench.core)
        summary = json.loads(Path(folder, "profile_export_aiperf.json").read_text())
        rows = [json.loads(line) for line in Path(folder, "profile_export.jsonl").read_text().splitlines()]
    complete([str(row["error"] or "") for row in rows if "error" in row] or [""] * len(rows), streams)
    sent = dict(zip(stats["ids"], stats["sent"], strict=True))
    pairs = [
        (
            [gap / 1e3 for gap in row["metrics"]["inter_chunk_latency"]["value"]],
            sent[row["metadata"]["x_request_id"]],
        )
        for row in rows
    ]
    tokens, rate = (round(summary["total_osl"]["avg"]), summary["output_token_throughput"]["avg"])
    return figures("aiperf", streams, tokens, rate, pairs, spent, stats)


def complete(errors: list[str], streams: int) -> None:
    wrong = [error for error in errors if error]
    if wrong or len(errors) != WAVES * streams:
        raise Failed(f"{len(errors) - len(wrong)} of {WAVES * streams} completed {wrong[:1]}")


def figures(
    client: str,
    streams: int,
    tokens: int,
    tokens_per_s: float,
    pairs: Pairs,
    cpu_s: float,
    stats: dict[str, Any],
) -> Figures:
    """pairs: of each request, its gaps as reported and the times when its tokens were sent."""
    errors = [
        abs(gap - (after - before)) * 1e3
        for gaps, sent in pairs
        for gap, before, after in zip(reversed(gaps), sent[-2::-1], sent[:0:-1], strict=False)
    ]
    return Figures(
        client=client,
        streams=streams,
        tokens=tokens,
        tokens_per_s=tokens_per_s,
        errors=sorted(errors),
        cpu_s=cpu_s,
        server_late_ms=stats["late_s"] * 1e3,
    )


CLIENTS: dict[str, Callable[[Bench, int], Figures]] = {
    "light": light,
    "light-oai": light_oai,
    "sglang": sglang,
    "sglang-rust": sglang_rust,
    "vllm": vllm,
    "aiperf": aiperf,
}


def main() -> int:
    given = arguments()
    if given.first:
        os.environ[FIRST] = "1"
    cores = sorted(os.sched_getaffinity(0))
    server_core, client_core = (cores[0], cores[1]) if len(cores) > 1 else (None, None)
    itl_s = given.itl_ms / 1e3
    told, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(itl_s, theirs, server_core), daemon=True
    )
    server.start()
    bench = Bench(url=f"http://127.0.0.1:{told.recv()}", core=client_core, given=given)
    rows: list[Figures] = []
    print(f"tokens {given.itl_ms:g} ms apart, {OUTPUT_LEN} a request, {WAVES} requests a stream")
    print("streams       client  CPU us/token   tok/s  of ideal  ITL error ms p50    p99  server late ms")
    try:
        for streams in given.streams.split(","):
            for client in given.clients.split(","):
                try:
                    rows.append(CLIENTS[client](bench, int(streams)))
                except Failed as why:
                    print(f"{streams:>7} {client:>12} {why}")
                else:
                    show(rows[-1], itl_s)
    finally:
        server.terminate()
    ours = [row for row in rows if row.client in OURS]
    good = bool(ours) and all(holds(row, rows, itl_s) for row in ours)
    print(f"the bars hold: {'yes' if good else 'no'}")
    return 0 if good else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--streams", default="64,256,512,1024")
    parser.add_argument("--clients", help="else all that are there")
    parser.add_argument("--itl-ms", type=float, default=20.0)
    parser.add_argument("--vllm", metavar="PYTHON", help="an interpreter that has vllm")
    parser.add_argument("--aiperf", metavar="PROGRAM")
    parser.add_argument("--sglang-rust", metavar="FOLDER", help="an unpacked wheel of SGLang 0.5.22 or newer")
    parser.add_argument("--first", action="store_true", help="before all else on a busy machine; needs root")
    given = parser.parse_args()
    there = ["light", "light-oai", "sglang"]
    there += [name for name in ("sglang-rust", "vllm", "aiperf") if getattr(given, name.replace("-", "_"))]
    given.clients = given.clients or ",".join(there)
    return given


def share(row: Figures, itl_s: float) -> float:
    """Of the ideal rate, when all streams begin at once and each answer takes what the server makes it."""
    return row.tokens_per_s * (TTFT_S + (OUTPUT_LEN - 1) * itl_s) / (row.streams * OUTPUT_LEN)


def show(row: Figures, itl_s: float) -> None:
    print(
        f"{row.streams:7} {row.client:>12} {row.cpu_s / row.tokens * 1e6:13.1f} {row.tokens_per_s:7.0f} "
        f"{share(row, itl_s):9.3f} {row.error(0.5):17.3f} {row.error(0.99):6.2f} {row.server_late_ms:15.1f}",
        flush=True,
    )


def holds(ours: Figures, rows: list[Figures], itl_s: float) -> bool:
    """Whether no other Python client spends less a token or errs less, and the ideal is near at 512."""
    others = [row for row in rows if row.streams == ours.streams and row.client not in (*OURS, *NOT_BARRED)]
    return (ours.streams != 512 or share(ours, itl_s) >= BAR_IDEAL) and all(
        ours.cpu_s / ours.tokens <= other.cpu_s / other.tokens
        and ours.error(0.5) <= other.error(0.5)
        and ours.error(0.99) <= other.error(0.99)
        for other in others
    )


if __name__ == "__main__":
    raise SystemExit(main())
