"""OEA on the real select_experts and the real RadixAttention of real releases, on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oeactl.agent.journal import state_path
from oeactl.agent.record import proof_dir
from oeactl.core.host import ProofFile
from tests.support.engine import cpu_engine
from tests.support.patched import overlay, planned
from tests.support.wheels import RELEASES

pytestmark = [pytest.mark.network, pytest.mark.engine]

HERE = Path(__file__).parent
VECTORS = json.loads((HERE / "data" / "vectors.json").read_text())["cases"]
ROUTER = "sglang/srt/layers/moe/topk.py"
CHECKS = (
    *(
        "vectors",
        "random",
        "fused",
        "ties",
        "no_k0_no_change",
        "short_menu",
        "depths",
        "shared_column",
        "recorder",
    ),
    *("count", "modes", "gates", "attention", "compiles", "cost", "exports", "proof", "bypassed"),
)


DEFAULT = ("0.4.10.post2", "0.5.9", "0.5.23")
LONG = [one for one in RELEASES if one not in DEFAULT]
KINDS = (
    *("sigmoid", "softmax", "bias", "renormalized", "not renormalized", "scaled", "padded", "shared"),
    *("all groups", "limited to groups"),
)
STAND_INS = "torchvision,sgl_kernel"
"""What the engine's venv lacks; vllm as well, which SGLang 0.4 imports."""


@pytest.fixture(
    scope="module", params=[*DEFAULT, *(pytest.param(one, marks=pytest.mark.compat) for one in LONG)]
)
def answer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every check on one release, run once in one process: importing SGLang costs seconds."""
    version: str = request.param
    folder = tmp_path_factory.mktemp(version)
    tree = overlay(version, folder / "engine", planned(version, k0=2))
    routers = {}
    for k0 in (1, 2, 3, 4, 7, 8):
        routers[k0] = folder / f"topk_{k0}.py"
        routers[k0].write_bytes(planned(version, k0=k0, min_tokens=1)[ROUTER])
    question = {
        "routers": {k0: str(path) for k0, path in routers.items()},
        "vectors": VECTORS,
    }
    (folder / "proof").mkdir()
    env = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SGLANG_USE_CPU_ENGINE": "1",
        "HF_HUB_OFFLINE": "1",
        "OEACTL_PROOF_DIR": str(folder / "proof"),
        "ENGINE_STUBS": f"{STAND_INS},vllm" if version.startswith("0.4") else STAND_INS,
    }
    done = subprocess.run(
        [cpu_engine().python, HERE / "routing_checks.py"],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_oea_on_a_real_release(answer: dict[str, Any], check: str) -> None:
    failures = answer["failures"][check]
    assert not failures, "\n".join(failures)


def test_no_check_is_left_out(answer: dict[str, Any]) -> None:
    assert set(answer["failures"]) == set(CHECKS)


def test_every_kind_of_routing_was_put_to_the_test_and_what_the_engine_refuses_was_counted(
    answer: dict[str, Any],
) -> None:
    """Of 240 random cases; what a release refuses by itself it must refuse with OEA as well."""
    seen = dict(answer["seen"])
    assert seen.pop("refused by the engine") < 80
    assert set(KINDS) <= set(seen) and min(seen.values()) >= 20, seen


def test_proof_is_what_the_client_reads(answer: dict[str, Any]) -> None:
    proof = msgspec.convert(answer["proof"], ProofFile)
    assert (proof.kind, proof.recipe, proof.parameters["k0"]) == ("eager", "oea", 2)
    assert len(proof.digest) == 64


def test_a_server_that_nobody_told_leaves_proof_where_the_agent_looks(
    answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Path(answer["proof"]["file"]).parents[3]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert [f"/home/somebody/{place}" for place in answer["home"]] == [
        proof_dir(state_path(str(package), None))
    ]
