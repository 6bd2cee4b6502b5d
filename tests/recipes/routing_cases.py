"""One call of a release's select_experts, said as that release wants it, and what the answer must be.

Owns: the call (for every signature since 0.4.7) and an independent reference in plain Python, one token at a
time. Read by ``routing_checks.py`` in the engine's own interpreter; not a test module itself.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import struct
import sys
import types

import torch

torch.compiler.set_stance("force_eager")  # the gates of SGLang are compiled on import, inductor is slow here

from sglang.srt.layers import radix_attention  # noqa: E402
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode  # noqa: E402

LAYER = 3
LIMITED = "the choice is limited to groups"
QUESTION = json.load(sys.stdin)
_routers: dict = {}


def router(k0):
    """select_experts planned for this k0 and min_tokens = 1, as a module of its own."""
    if k0 not in _routers:
        path = QUESTION["routers"][str(k0)]
        spec = importlib.util.spec_from_file_location("sglang.srt.layers.moe.topk", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _routers[k0] = module
    return _routers[k0]


def batch(mode, **more):
    """A ForwardBatch of the release with nothing in it but its mode and what is given."""
    needed = [
        name
        for name, given in inspect.signature(ForwardBatch).parameters.items()
        if given.default is inspect.Parameter.empty
    ]
    return ForwardBatch(**{**dict.fromkeys(needed), "forward_mode": mode, **more})


def note(mode=ForwardMode.DECODE, layer=LAYER, **more):
    radix_attention._oea_note.leave(layer, batch(mode, **more))


class Case:
    """One call of select_experts: what goes in, and how the release wants it said.

    top_k: routed experts a token, without the shared ones. groups: (all, chosen). grouped: which of the
    engine's two kinds of gate, None for the one that such a model has. fused: the kernel's, not the native
    one.
    """

    def __init__(self, logits, bias, *, top_k, scoring="sigmoid", renormalize=True, scale=1.0, groups=(1, 1),
                 real=None, shared=0, grouped=None, fused=False):  # fmt: skip
        self.logits, self.bias, self.top_k, self.scoring = logits, bias, top_k, scoring
        self.renormalize, self.scale, self.groups, self.real = renormalize, scale, groups, real
        self.shared, self.fused = shared, fused
        self.grouped = bias is not None or groups[0] > 1 if grouped is None else grouped

    def config(self, module):
        """The release's TopKConfig; a namespace of the same names where it has none (0.4)."""
        config = getattr(module, "TopKConfig", None)
        known = config or module.select_experts
        fields = inspect.signature(known).parameters
        bias, grouped = self.bias, self.grouped
        if self.asks_for_a_zero_bias(module):
            bias, grouped = torch.zeros(self.logits.shape[1]), True
        given = {
            "top_k": self.top_k + self.shared,
            "use_grouped_topk": grouped,
            "num_expert_group": self.groups[0],
            "topk_group": self.groups[1],
            "renormalize": self.renormalize,
            "custom_routing_function": None,
            "correction_bias": bias,
            "torch_native": not grouped and not self.fused,
            "scoring_func": self.scoring,
            "num_fused_shared_experts": self.shared,
            "routed_scaling_factor": self.scale,
        }
        if self.scale != 1.0 and grouped:
            given["apply_routed_scaling_factor_on_output"] = True
        if self.shared and "shared_experts" in fields:  # 0.5.22 on
            given["shared_experts"] = module.SharedExpertsConfig(num_fused_shared_experts=self.shared)
        return (config or types.SimpleNamespace)(**{name: given[name] for name in given if name in fields})

    def route(self, module, config=None):
        """(weights, ids) of this call, as select_experts gives them."""
        config = config or self.config(module)
        known = inspect.signature(module.select_experts).parameters
        more = {"layer_id": LAYER} if "layer_id" in known else {}
        more |= {"topk_config": config} if "topk_config" in known else vars(config)
        if self.real is not None:
            more["num_token_non_padded"] = torch.tensor(self.real, dtype=torch.int32)
        hidden = torch.zeros(len(self.logits), 4)
        out = module.select_experts(hidden, self.logits, **more)
        return out[0], out[1]

    def both(self, module):
        """The engine's own answer, then the one with OEA."""
        pristine = self.route(module)
        note()
        return pristine, self.route(module)

    def asks_for_a_zero_bias(self, module):
        """Releases before 0.5.6 know no sigmoid without a bias."""
        fields = inspect.signature(getattr(module, "TopKConfig", module.select_experts)).parameters
        plain = self.bias is None and not self.grouped
        return plain and self.scoring == "sigmoid" and "scoring_func" not in fields

    def scored_by(self, module):
        """The scoring that this release's gate really has for this call."""
        if self.grouped and self.bias is not None:
            return "sigmoid"
        if self.asks_for_a_zero_bias(module):
            return "sigmoid"
        if self.fused:
            return "softmax"  # our stand-in for the kernel
        gate = module.grouped_topk if self.grouped else module.fused_topk_native
        return self.scoring if "scoring_func" in inspect.signature(gate).parameters else "softmax"

    def bias_of(self, module):
        """The bias that this release's gate really adds for this call."""
        native = inspect.signature(module.fused_topk_native).parameters
        known = self.grouped or ("correction_bias" in native and not self.fused)
        return self.bias.tolist() if known and self.bias is not None else [0.0] * self.logits.shape[1]

    @property
    def limited(self):
        return self.grouped and self.groups[0] > self.groups[1]

    @property
    def kind(self):
        """In words."""
        return " ".join(
            [
                self.scoring,
                "grouped" if self.grouped else "plain",
                f"{self.groups[1]} of {self.groups[0]}",
                *(["bias"] if self.bias is not None else []),
                *(["renormalized"] if self.renormalize else []),
                *([f"x {self.scale}"] if self.scale != 1.0 else []),
                *(["padded"] if self.real is not None else []),
                *(["shared"] if self.shared else []),
            ]
        )

    def traits(self, module):
        """What of the reference this case puts to the test, a name each."""
        found = {
            self.scored_by(module): not self.limited,
            "bias": self.bias is not None,
            "renormalized": self.renormalize,
            "not renormalized": not self.renormalize,
            "scaled": self.scale != 1.0,
            "padded": self.real is not None,
            "shared": bool(self.shared),
            "all groups": self.groups == (4, 4),
            "limited to groups": self.limited,
        }
        return [name for name, true in found.items() if true]


def used(weights, ids, row, shared=0):
    """expert -> weight of one row, without slots of weight 0 and without shared columns."""
    width = ids.shape[1] - shared
    pairs = zip(ids[row, :width].tolist(), weights[row, :width].tolist(), strict=True)
    return {expert: weight for expert, weight in pairs if weight != 0}


# --- the reference: plain Python, one token at a time --------------------------------------------------


def scored(row, scoring):
    if scoring == "sigmoid":
        return [1 / (1 + math.exp(-x)) for x in row]
    if scoring == "sqrtsoftplus":
        return [math.sqrt(math.log1p(math.exp(x))) for x in row]
    top = max(row)
    parts = [math.exp(x - top) for x in row]
    return [part / sum(parts) for part in parts]


def reference(case, k0, scoring, bias):
    """For each real token: expert -> plain score of those it uses."""
    rows = case.logits.tolist()[: case.real]
    scores = [scored(row, scoring) for row in rows]
    orders = [sorted(range(len(score)), key=lambda e, s=score: -(s[e] + bias[e])) for score in scores]
    elected = {expert for order in orders for expert in order[:k0]}
    picked = []
    for score, order in zip(scores, orders, strict=True):
        kept = order[:k0] + [expert for expert in order[k0:] if expert in elected][: case.top_k - k0]
        picked.append({expert: score[expert] for expert in kept})
    return picked


def compare(case, k0, name, tolerance=1e-5):
    """Failures of one case against the reference, on the real function."""
    module, failures = router(k0), []
    (before, ids_before), (weights, ids) = case.both(module)
    if case.limited:
        same = torch.equal(before, weights) and torch.equal(ids_before, ids)
        return [] if same and LIMITED in module._oea.skipped else [f"{name}: neither left alone nor counted"]
    scoring = case.scored_by(module)
    for row, expected in enumerate(reference(case, k0, scoring, case.bias_of(module))):
        got = used(weights, ids, row, case.shared)
        if set(got) != set(expected):
            failures.append(f"{name}: row {row} uses {sorted(got)}, not {sorted(expected)}")
            continue
        width = ids.shape[1] - case.shared
        total = float(before[row, :width].sum())
        if not case.renormalize:  # each score times the engine's own factor for the row
            first = int(ids_before[row, 0])
            factor = float(before[row, 0]) / scored(case.logits[row].tolist(), scoring)[first]
            total = factor * sum(expected.values())
        worst = max(abs(got[e] - total * s / sum(expected.values())) for e, s in expected.items())
        if worst > tolerance * max(1.0, total):
            failures.append(f"{name}: row {row}, a weight is off by {worst:.1e}")
        if case.shared and not torch.equal(before[row, width:], weights[row, width:]):
            off = float((before[row, width:] - weights[row, width:]).abs().max())
            if off > tolerance:
                failures.append(f"{name}: row {row}, the shared expert's weight is off by {off:.1e}")
    return failures


def rounded(number, dtype):
    """A Python float as the dtype would hold it."""
    if dtype == torch.float32:
        return struct.unpack("f", struct.pack("f", number))[0]
    bits = struct.unpack("I", struct.pack("f", number))[0]
    return struct.unpack("f", struct.pack("I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))[0]


def engine_choice(row, bias, dtype):
    """score + bias as the native gate has it: bfloat16 scores, summed in the wider dtype."""
    scores = [rounded(1 / (1 + math.exp(-x)), torch.bfloat16) for x in row]
    return [rounded(score + more, dtype) for score, more in zip(scores, bias, strict=True)]
