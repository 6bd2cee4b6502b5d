"""What OEA adds to one router call on this CPU, as a ratio to the unpatched call.

    python benchmarks/routing.py [--version 0.5.20] [--rounds 41] [--k0 4]

Times the real ``select_experts`` of that release, its own file and the patched one in turn within each round,
in one process on one thread, by processor time, so that a busy machine matters little: GLM's routing (256
experts, 8 a token, sigmoid with a correction bias, bfloat16 logits) at 1, 16, 64 and 256 rows. The columns
are of a prompt, which OEA leaves as it is, and of decode, where it acts; a call of one row is left alone too
(min_tokens). The note that attention leaves, a call before the router, is counted in. Medians of the paired
ratios, and the middle half of them. On a GPU the figures are others: there what is added is kernels, at
most 10 (tests/recipes/routing_checks.py), in a replayed graph.

SGLang's gates run uncompiled (TORCHDYNAMO_DISABLE=1), as the demo's server has them: compiled ones are
faster, and the ratio larger.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUTER = "sglang/srt/layers/moe/topk.py"
ROWS = (1, 16, 64, 256)
LAYER = 1
CALLS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--version", default="0.5.20")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--k0", type=int, default=4)
    parser.add_argument("--inside", metavar="FILE", help=argparse.SUPPRESS)  # in the engine's own process
    options = parser.parse_args()
    if options.inside:
        print(json.dumps([measure(rows, options.inside, options.rounds) for rows in ROWS]))
        return 0
    print(f"sglang {options.version}, k0 = {options.k0}, {options.rounds} rounds of {CALLS} calls\n")
    print("| rows | unpatched, µs | a prompt ÷ it | decode ÷ it | middle half |")
    print("|--:|--:|--:|--:|--:|")
    for rows, found in zip(ROWS, run(options.version, options.rounds, options.k0), strict=True):
        low, _, high = statistics.quantiles(found["decode"], n=4)
        prompt, decode = (statistics.median(found[name]) for name in ("prompt", "decode"))
        print(f"| {rows} | {found['us']:.0f} | {prompt:.2f} | {decode:.2f} | {low:.2f} to {high:.2f} |")
    return 0


def run(version: str, rounds: int, k0: int) -> list[dict[str, Any]]:
    """Measure in a process of the engine's, which has its torch and the patched release."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.support.engine import cpu_engine
    from tests.support.patched import overlay, planned
    from tests.support.wheels import engine_tree

    with tempfile.TemporaryDirectory() as folder:
        tree = overlay(version, Path(folder) / "engine", planned(version, k0=k0))
        env = {"SGLANG_USE_CPU_ENGINE": "1", "TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1"}
        env |= {"PYTHONPATH": str(tree), "OEACTL_PROOF": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        argv = (__file__, "--rounds", str(rounds), "--inside", str(engine_tree(version) / ROUTER))
        done = subprocess.run(
            [cpu_engine().python, *argv], env={**os.environ, **env}, stdout=subprocess.PIPE, check=True
        )
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(rows: int, pristine: str, rounds: int) -> dict[str, Any]:
    """Microseconds of the unpatched call, and the paired ratios of the patched one to it, by mode."""
    import torch
    from sglang.srt.layers import radix_attention
    from sglang.srt.layers.moe import topk as patched
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    spec = importlib.util.spec_from_file_location("sglang.srt.layers.moe.topk", pristine)
    assert spec is not None and spec.loader is not None
    original = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(original)
    torch.manual_seed(rows)
    logits, bias = torch.randn(rows, 256).bfloat16(), 0.05 * torch.randn(256)
    hidden = torch.zeros(rows, 8)
    given = {"use_grouped_topk": True, "num_expert_group": 1, "topk_group": 1, "correction_bias": bias}
    note = radix_attention._oea_note

    class Batch:
        def __init__(self, mode: ForwardMode) -> None:
            self.forward_mode, self.global_num_tokens_gpu, self.spec_info = mode, None, None

    def calls(module: Any, mode: ForwardMode | None = None) -> Callable[[], None]:
        config = module.TopKConfig(top_k=8, renormalize=True, routed_scaling_factor=2.5, **given)
        batch = Batch(mode) if mode is not None else None

        def call() -> None:
            if batch is not None:
                note.leave(LAYER, batch)
            module.select_experts(hidden, logits, config, layer_id=LAYER)

        return call

    variants = {
        "unpatched": calls(original),
        "prompt": calls(patched, ForwardMode.EXTEND),
        "decode": calls(patched, ForwardMode.DECODE),
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds + 2):  # two to warm up
        for name, call in variants.items():
            begun = time.process_time()
            for _ in range(CALLS):
                call()
            times[name].append((time.process_time() - begun) / CALLS)
    kept = {name: taken[2:] for name, taken in times.items()}
    return {
        "us": statistics.median(kept["unpatched"]) * 1e6,
        **{
            name: [a / b for a, b in zip(kept[name], kept["unpatched"], strict=True)]
            for name in ("prompt", "decode")
        },
    }


if __name__ == "__main__":
    sys.exit(main())
