"""What must hold of OEA on a real release, checked by the engine's own interpreter; not a test module itself.

    python routing_checks.py < question > answer        (JSON both ways; see test_oea_routing.py)

The question names, for each k0, a planned topk.py; the answer is a list of failures for each check, empty
where all held. The release on PYTHONPATH is patched too, with k0 = 2 and min_tokens = 2.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import sys
import traceback
import types
from pathlib import Path

import sglang.srt.layers.moe.topk as patched
import torch
from routing_cases import (
    LAYER,
    LIMITED,
    QUESTION,
    Case,
    batch,
    compare,
    engine_choice,
    note,
    router,
    used,
)
from sglang.srt.layers import radix_attention
from sglang.srt.model_executor.forward_batch_info import ForwardMode

LEAST = -1000.0  # what is off the menu lies below


def check_vectors():
    """The independent vectors, one by one."""
    failures = []
    for vector in QUESTION["vectors"]:
        module, name = router(vector["k0"]), vector["name"]
        bias = vector["correction_bias"]
        case = Case(
            torch.tensor(vector["router_logits"]),
            None if bias is None else torch.tensor(bias),
            top_k=vector["top_k"],
            scoring=vector["scoring_func"],
            renormalize=vector["renormalize"],
            scale=vector["scale"],
            groups=(vector["num_expert_group"], vector["topk_group"]),
            real=vector["num_token_non_padded"],
        )
        (before, ids_before), (weights, ids) = case.both(module)
        if case.limited:
            if not torch.equal(weights, before) or LIMITED not in module._oea.skipped:
                failures.append(f"{name}: neither left alone nor counted")
            continue
        active, active_before = set(), set()
        for row, expected in enumerate(vector["expected"]):
            if not expected:
                continue
            got, total = used(weights, ids, row), float(weights[row].sum())
            active |= set(got)
            active_before |= set(used(before, ids_before, row))
            expected = {int(expert): weight for expert, weight in expected.items()}
            if set(got) != set(expected):
                failures.append(f"{name}: row {row} uses {sorted(got)}, not {sorted(expected)}")
                continue
            whole = sum(expected.values())
            if max(abs(got[e] / total - w / whole) for e, w in expected.items()) > 1e-5:
                failures.append(f"{name}: row {row}, weights differ")
            wanted = float(before[row].sum()) if case.renormalize else whole * case.scale
            if abs(total - wanted) > 1e-5:
                failures.append(f"{name}: row {row} has weight {total} in all, not {wanted}")
        counts = (vector["active_experts_before"], vector["active_experts_after"])
        if (len(active_before), len(active)) != counts:
            failures.append(f"{name}: {len(active_before)} -> {len(active)} experts, not {counts}")
    return failures


def drawn(rng):
    """A k0 and a case of any kind there is, whether or not some release can do it."""
    k0 = rng.choice([1, 2, 3, 4, 7])
    top_k = rng.choice([k0 + 1, rng.randint(k0 + 1, 8)])
    rows, experts = rng.randint(1, 24), rng.choice([16, 32, 64, 128])
    grouped, biased = rng.random() < 0.6, rng.random() < 0.6
    logits = torch.tensor([[rng.gauss(0, 1) for _ in range(experts)] for _ in range(rows)])
    shared = int(grouped and rng.random() < 0.25)
    return k0, Case(
        logits,
        torch.tensor([rng.gauss(0, 0.05) for _ in range(experts)]) if biased else None,
        top_k=top_k,
        scoring=rng.choice(["sigmoid", "softmax", "sqrtsoftplus"]),
        renormalize=bool(shared) or rng.random() < 0.6,  # the engine's shared weight presupposes it
        scale=rng.choice([1.0, 2.5]),
        groups=rng.choice([(1, 1), (4, 4), (4, 2)]) if grouped else (1, 1),
        real=rng.randint(1, rows) if rng.random() < 0.3 else None,
        shared=shared,
        grouped=grouped,
    )


def check_random():
    """Random shapes and kinds against the slow reference, without ties.

    Where the engine itself refuses a kind, the patched engine must refuse it alike; all is counted.
    """
    failures, rng, seen = [], random.Random(7), collections.Counter()
    for number in range(240):
        k0, case = drawn(rng)
        name = f"{number}: {case.kind}, {tuple(case.logits.shape)}, {k0} of {case.top_k}"
        try:
            case.route(patched)  # no note: as the engine is
        except (AssertionError, AttributeError, RuntimeError, TypeError, ValueError) as refusal:
            seen["refused by the engine"] += 1
            note()
            try:
                case.route(router(k0))
                failures.append(f"{name}: the engine refuses it ({refusal}), and with OEA it does not")
            except type(refusal):
                radix_attention._oea_note.take(None)
            continue
        failures += compare(case, k0, name)
        seen.update(case.traits(patched))
    QUESTION["seen"] = dict(seen)
    return failures


def kernel(weights, ids, *more):
    """What SGLang's kernel for a softmax does, which is not there on a CPU: no bias reaches it."""
    logits = [one for one in more if isinstance(one, torch.Tensor)][-1]
    best, chosen = torch.topk(logits.float().softmax(dim=-1), ids.shape[1], dim=-1)
    if more[-1] is True:
        best = best / best.sum(dim=-1, keepdim=True)
    weights.copy_(best)
    ids.copy_(chosen)


def check_fused():
    """The fused gate takes a bias and leaves it out: so must the votes, and no weight may be lost."""
    failures, rng = [], random.Random(13)
    for number in range(40):
        k0, case = drawn(rng)
        case.grouped, case.fused, case.groups, case.shared, case.scale = False, True, (1, 1), 0, 1.0
        case.scoring, case.real = "softmax", None
        router(k0).topk_softmax = kernel
        failures += compare(
            case, k0, f"{number}: {case.kind}, {tuple(case.logits.shape)}, {k0} of {case.top_k}"
        )
    return failures


def check_ties():
    """bfloat16 with many ties: whatever way they are broken, the menu and the choice are right ones."""
    failures, rng, seen = [], random.Random(11), []
    for number in range(40):
        k0 = rng.choice([1, 3, 7])
        top_k = k0 + 1 if number % 2 else 8
        rows, experts = rng.randint(2, 16), 64
        few = number % 4 < 2  # values, and so ties; else the order hangs on how the scores are rounded
        steps = [-1.5, -0.5, 0.0, 0.25, 0.5, 2.0, 3.0, 3.01, 3.02]
        drawn = [[rng.choice(steps) if few else rng.gauss(0, 1) for _ in range(experts)] for _ in range(rows)]
        logits, dtype = torch.tensor(drawn).bfloat16(), rng.choice([torch.float32, torch.bfloat16])
        shifts = [rng.choice([0.0, 0.125, 0.01]) if few else rng.gauss(0, 0.05) for _ in range(experts)]
        bias = torch.tensor(shifts, dtype=dtype)
        module = router(k0)
        elect, oea = type(module._oea).elect, module._oea
        oea.elect = lambda *given, rule=elect: seen.append(rule(*given)) or seen[-1]
        _, (weights, ids) = Case(logits, bias, top_k=top_k).both(module)
        del oea.elect
        menu = {e for e in range(experts) if float(seen[-1][0][0, e]) > LEAST}
        choices = [engine_choice(row, bias.tolist(), dtype) for row in logits.tolist()]
        bars = [sorted(choice, reverse=True)[k0 - 1] for choice in choices]
        name = f"{number}: {rows} rows, {k0} of {top_k}, bias {dtype}"
        for choice, bar in zip(choices, bars, strict=True):
            if not {e for e in range(experts) if choice[e] > bar} <= menu:
                failures.append(f"{name}: a sure vote is not on the menu")
            if sum(choice[e] >= bar for e in menu) < k0:
                failures.append(f"{name}: fewer than k0 votes of a token are on the menu")
        if any(all(choice[e] < bar for choice, bar in zip(choices, bars, strict=True)) for e in menu):
            failures.append(f"{name}: nobody voted for an expert on the menu")
        for row, choice in enumerate(choices):
            got = used(weights, ids, row)
            best = sorted((choice[e] for e in menu), reverse=True)[: min(top_k, len(menu))]
            if sorted((choice[e] for e in got), reverse=True) != best or not set(got) <= menu:
                failures.append(f"{name}: row {row} did not choose its best of the menu")
    return failures


def check_no_k0_no_change():
    """k0 = top_k hands the engine its own tensors back, the very same objects."""
    case = Case(torch.randn(6, 32), torch.randn(32), top_k=7)
    note()
    module = router(7)
    out = module._oea.route(case.logits, case.bias, case.config(module), layer=LAYER)
    return [] if out[0] is case.logits and out[1] is case.bias and out[2] is None else ["inputs were touched"]


def check_short_menu():
    """A menu smaller than top_k: the rest weighs exactly 0, and all rows fill up with the same experts."""
    failures = []
    for seed in range(40):
        torch.manual_seed(seed)
        logits = torch.randn(3, 64).repeat(1, 1) + 3 * torch.randn(1, 64)
        for case in (
            Case(logits, 0.1 * torch.randn(64), top_k=8),
            Case(logits.bfloat16(), (0.1 * torch.randn(64)).bfloat16(), top_k=8),
            Case(logits, None, top_k=8, scoring="softmax"),
        ):
            _, (weights, ids) = case.both(router(1))
            touched = {int(expert) for expert in ids.flatten()}
            if len(touched) > 8 or int(ids.min()) < 0:
                failures.append(f"{seed}: {len(touched)} experts are activated, top_k is 8")
            if not bool(torch.isfinite(weights).all()):
                failures.append(f"{seed}: a weight is not finite")
    return failures


def check_depths():
    """What is off the menu lies far below any logit, above a kernel's mark, and apart where rows fill up."""
    failures = []
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for experts in (64, 256, 1024):
            logits, bias = torch.zeros(2, experts, dtype=dtype), torch.zeros(experts, dtype=dtype)
            logits[:, -2:] = 1
            sunk = patched._oea.elect(logits, bias, "sigmoid", None)
            for values in (sunk[0][0, :-2].tolist(), sunk[1][:-2].tolist()):
                if not -10000 < min(values) <= max(values) <= LEAST or len(set(values[:62])) < 62:
                    failures.append(f"{experts} experts of {dtype}: {min(values)} to {max(values)}")
    return failures


def check_shared_column():
    """A fused shared expert keeps its slot and its weight."""
    case = Case(torch.randn(8, 64), 0.1 * torch.randn(64), top_k=8, shared=1)
    (before, ids_before), (weights, ids) = case.both(router(2))
    same = torch.equal(ids[:, -1], ids_before[:, -1]) and torch.allclose(weights[:, -1], before[:, -1])
    return [] if same else ["the shared column changed"]


class Recorder:
    """Stands where the engine's expert distribution recorder does."""

    def __init__(self):
        self.ids = []

    def on_select_experts(self, topk_ids):
        self.ids.append(topk_ids.clone())


def check_recorder():
    """What the engine records are the new ids."""
    module, recorder = router(2), Recorder()
    module.get_global_expert_distribution_recorder, original = (
        lambda: recorder,
        module.get_global_expert_distribution_recorder,
    )
    (_, before), (_, after) = Case(torch.randn(8, 64), torch.randn(64), top_k=8).both(module)
    module.get_global_expert_distribution_recorder = original
    ok = (
        len(recorder.ids) == 2
        and torch.equal(recorder.ids[0], before)
        and torch.equal(recorder.ids[1], after)
    )
    return [] if ok and not torch.equal(before, after) else ["other ids were recorded"]


def check_count():
    """Switched on, the counter sees what the gate chose in decode, and leaves it once a step is over."""
    module, case = router(2), Case(torch.randn(8, 64), 0.1 * torch.randn(64), top_k=8)
    oea, failures, wanted = module._oea, [], []
    if oea.counting:
        failures.append("it counts though nobody asked for it")
    oea.counting = True
    try:
        for _ in range(40):
            case.logits = torch.randn(8, 64)
            note(ForwardMode.EXTEND)
            case.route(module)
            wanted.append([len(set(ids.flatten().tolist())) for _, ids in case.both(module)])
        found = [one for name, one in proofs().items() if name.startswith("experts-")]
    finally:
        oea.counting = False
    told = found[0]["counts"] if found else None
    before, after = (list(counts) for counts in zip(*wanted[7:39], strict=True))
    if told != {"8": {str(LAYER): {"steps": 39, "before": before, "after": after}}} or before == after:
        failures.append(f"{told}, not 39 steps that end in {before}, {after}")
    return failures


def shrinks(rows=8, prepare=note, real_layer=LAYER, module=patched, **config):
    """Whether one router call of the k0 = 2 release, after ``prepare()``, has a smaller menu."""
    case = Case(torch.randn(rows, 64), torch.randn(64), top_k=8)
    prepared = case.config(module)
    for name, value in config.items():
        setattr(prepared, name, value)
    prepare()
    given = module._oea.route(case.logits, case.bias, prepared, layer=real_layer)
    return given[0] is not case.logits


def check_modes():
    """Decode and verification only; no stale, foreign, idle or draft note; data-parallel attention is off."""
    draft, ranks = types.SimpleNamespace(), torch.tensor([4, 4])
    on = {
        "decode": lambda: note(),
        "verify": lambda: note(ForwardMode.TARGET_VERIFY, spec_info=draft),
        "one rank": lambda: note(global_num_tokens_gpu=torch.tensor([8])),
    }
    off = {
        mode.name: lambda mode=mode: note(mode)
        for mode in ForwardMode
        if mode not in (ForwardMode.DECODE, ForwardMode.TARGET_VERIFY)
    }
    off |= {
        "a draft decodes": lambda: note(spec_info=draft),
        "ranks": lambda: note(global_num_tokens_gpu=ranks),
        "ranks verify": lambda: note(ForwardMode.TARGET_VERIFY, global_num_tokens_gpu=ranks),
        "no attention": lambda: None,
        "another layer": lambda: note(layer=LAYER + 1),
        "a prompt after a token": lambda: (note(), note(ForwardMode.EXTEND)),
    }
    failures = [f"off in {name}" for name, prepare in on.items() if not shrinks(prepare=prepare)]
    failures += [f"on in {name}" for name, prepare in off.items() if shrinks(prepare=prepare)]
    if not shrinks() or shrinks(prepare=lambda: None):
        failures.append("a note is good for more than one call")
    note(layer=LAYER + 1)
    if shrinks(prepare=lambda: None) or shrinks(prepare=lambda: None, real_layer=LAYER + 1):
        failures.append("a note that another layer's router came upon is still there")
    wanted = {"ranks of data-parallel attention may differ in mode", "a draft model decodes"}
    if not wanted <= set(patched._oea.skipped):
        failures.append(f"counted only {patched._oea.skipped}")
    return failures


def check_gates():
    """Rows below min_tokens and above max_tokens, and kinds of routing that are off, are left alone."""
    failures = [f"on at {rows} rows" for rows in (1, 513) if shrinks(rows)]
    failures += [f"off at {rows} rows" for rows in (2, 512) if not shrinks(rows)]
    for name, config in {
        "groups": {"num_expert_group": 4, "topk_group": 2},
        "custom": {"custom_routing_function": print},
        "draft": {"allow_routed_experts_capture": False},
    }.items():
        if shrinks(**config):
            failures.append(f"on with {name}")
    if not shrinks(num_expert_group=4, topk_group=4):
        failures.append("off where every group is chosen")
    note()
    logits, bias = torch.randn(8, 64), torch.randn(64)
    config = Case(logits, bias, top_k=8).config(patched)
    if patched._oea.route(logits, bias, config, layer=LAYER, per_token=torch.zeros(8, 64))[0] is not logits:
        failures.append("on with a bias per token")
    return failures


def check_attention():
    """The real RadixAttention leaves the note before it does anything else."""
    attention = radix_attention.RadixAttention(1, 4, 1.0, 1, layer_id=LAYER)
    failures = []
    for mode in (ForwardMode.DECODE, ForwardMode.EXTEND):
        tensors = [torch.zeros(2, 1, 4) for _ in range(3)]
        with contextlib.suppress(
            AttributeError, AssertionError, RuntimeError, LookupError
        ):  # no backend here
            attention(*tensors, batch(mode))
        left = radix_attention._oea_note.take(LAYER)
        if left != (mode.name if mode == ForwardMode.DECODE else None, None):
            failures.append(f"{mode.name} left {left}")
    return failures


def check_compiles():
    """torch.compile takes attention's note, the wrapper and the whole router in one graph, in both modes."""
    failures, module = [], patched
    case = Case(torch.randn(16, 64), 0.1 * torch.randn(64), top_k=8)
    config = case.config(module)
    case.route(module, config)  # first-call set-up of the engine is not for a compiler
    decode, prompt = batch(ForwardMode.DECODE), batch(ForwardMode.EXTEND)

    def layer(forward_batch):
        radix_attention._oea_note.leave(LAYER, forward_batch)
        return case.route(module, config)

    eager = {id(given): layer(given) for given in (decode, prompt)}
    if torch.equal(eager[id(decode)][1], eager[id(prompt)][1]):
        failures.append("decode chooses as a prompt does")
    with compiling():
        for order in ((decode, prompt, decode), (prompt, decode, prompt)):
            torch._dynamo.reset()
            compiled = torch.compile(layer, fullgraph=True, backend="eager")
            for given in order:
                weights, ids = compiled(given)
                if not (torch.equal(weights, eager[id(given)][0]) and torch.equal(ids, eager[id(given)][1])):
                    failures.append(f"{given.forward_mode.name} differs when compiled")
        torch._dynamo.reset()
    return failures


@contextlib.contextmanager
def compiling():
    torch.compiler.set_stance("default")
    yield
    torch.compiler.set_stance("force_eager")


class Counter(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts what runs, views left out."""

    VIEWS = ("view", "unsqueeze", "slice", "expand", "_unsafe_view")

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name not in self.VIEWS:
            self.names.append(name)
        return function(*args, **(kwargs or {}))


def check_cost():
    """Aten ops a call: 7 with a bias, 5 without, 3 for the count of real rows, 1 for another dtype.

    On top of these: 8 for a softmax with a bias, 4 for one that is not renormalized, and 1 for its weights.
    """
    failures, oea = [], patched._oea
    logits, bias, real = torch.randn(8, 64), torch.randn(64), torch.tensor(5)
    menu, sunk = oea.elect(logits, bias, "softmax", None)
    for most, rule, given in (
        (7, oea.elect, (logits, bias, "sigmoid", None)),
        (5, oea.elect, (logits, None, "softmax", None)),
        (10, oea.elect, (logits, bias, "sigmoid", real)),
        (8, oea.elect, (logits.bfloat16(), bias, "sigmoid", None)),
        (8, oea.weighed, (logits, menu, sunk)),
        (4, oea.share, (logits, menu)),
    ):
        with Counter() as counter:
            rule(*given)
        if len(counter.names) > most:
            failures.append(f"{len(counter.names)} ops, not {most}: {counter.names}")
    return failures + whole_calls()


def whole_calls():
    """All that a layer's inserted call runs: in decode the rule alone, in a prompt nothing."""
    failures, logits = [], torch.randn(8, 64)
    glm = Case(logits, torch.randn(64), top_k=8)
    fused = Case(logits, None, top_k=8, scoring="softmax", grouped=False, fused=True)
    unscaled = Case(logits, None, top_k=8, scoring="softmax", grouped=False, fused=True, renormalize=False)
    for name, case, mode, most in (
        ("GLM", glm, ForwardMode.DECODE, 7),
        ("softmax", fused, ForwardMode.DECODE, 5),
        ("softmax, not renormalized", unscaled, ForwardMode.DECODE, 9),
        ("a prompt", glm, ForwardMode.EXTEND, 0),
    ):
        config = case.config(patched)
        note(mode)
        with Counter() as counter:
            patched._oea.route(case.logits, case.bias, config, layer=LAYER)
        if len(counter.names) > most or (most and not counter.names):
            failures.append(f"{name}: {len(counter.names)} ops, not {most}: {counter.names}")
    return failures


def check_exports():
    """The rule exports with a symbolic number of tokens: nothing in it looks at the data."""

    class Rule(torch.nn.Module):
        def forward(self, logits, bias, real):
            return patched._oea.elect(logits, bias, "sigmoid", real)

    given = (torch.randn(16, 64), torch.randn(64), torch.tensor(5))
    tokens = torch.export.Dim("tokens", min=2, max=512)
    with compiling():
        program = torch.export.export(Rule(), given, dynamic_shapes=({0: tokens}, None, None))
    other = (torch.randn(33, 64), given[1], torch.tensor(30))
    same = all(torch.equal(a, b) for a, b in zip(program.module()(*other), Rule()(*other), strict=True))
    return [] if same else ["the exported rule chooses otherwise"]


def proofs():
    folder = Path(os.environ["OEACTL_PROOF_DIR"])
    found = {path.name: json.loads(path.read_text()) for path in sorted(folder.iterdir())}
    for path in folder.iterdir():
        path.unlink()
    return found


def check_proof():
    """Loaded at import, taken once in decode, nothing while compiling or silenced, and never an error."""
    failures, pid = [], os.getpid()
    found = proofs()
    if set(found) != {f"loaded-{pid}.json"} or found[f"loaded-{pid}.json"]["pid"] != pid:
        failures.append(f"after the import: {sorted(found)}")
    shrinks(prepare=lambda: note(ForwardMode.EXTEND))
    if proofs():
        failures.append("a prompt left proof")
    oea, config = patched._oea, Case(torch.randn(8, 64), None, top_k=8).config(patched)
    with compiling():
        torch._dynamo.reset()
        route = torch.compile(
            lambda x: oea.route(x, None, config, layer=LAYER)[0], fullgraph=True, backend="eager"
        )
        note()
        route(torch.randn(8, 64))
    if proofs() or not oea.compiled:
        failures.append("proof was written, or not remembered, while compiling")
    shrinks(prepare=lambda: note(ForwardMode.EXTEND))
    if set(found := proofs()) != {f"compiled-{pid}.json"}:
        failures.append(f"compiled, then called: {sorted(found)}")
    sys.modules["sglang.srt.model_executor.cuda_graph_runner"] = types.SimpleNamespace(is_capture_mode=True)
    shrinks()
    del sys.modules["sglang.srt.model_executor.cuda_graph_runner"]
    if proofs():
        failures.append("the rehearsal of a capture left proof")
    for _ in range(3):
        shrinks()
    found = proofs()
    taken = found.get(f"eager-{pid}.json", {})
    if len(found) != 1 or (taken.get("mode"), taken.get("layer"), taken.get("rows")) != ("DECODE", LAYER, 8):
        failures.append(f"in decode: {found}")
    if taken.get("file") != str(Path(patched.__file__).resolve()):
        failures.append(f"proof of {taken.get('file')}")
    folder = os.environ["OEACTL_PROOF_DIR"]
    os.environ["OEACTL_PROOF"] = "0"
    oea.prove("capture")
    os.environ["OEACTL_PROOF"] = "1"
    if proofs():
        failures.append("a silenced worker left proof")
    os.environ["OEACTL_PROOF_DIR"] = "/proc/none"
    oea.proven.discard("eager")
    if not shrinks():
        failures.append("no proof, no routing")
    QUESTION["home"] = left_at_home(oea, Path(folder))
    os.environ["OEACTL_PROOF_DIR"] = folder
    shrinks(num_expert_group=4, topk_group=2)
    found = proofs()
    if set(found) != {f"skipped-{pid}.json"} or found[f"skipped-{pid}.json"]["reason"] != LIMITED:
        failures.append(f"left alone for its groups: {found}")
    QUESTION["proof"] = taken
    return failures


def check_bypassed():
    """A gate that the MoE kernel has inside never comes to the router: loaded, and nothing taken."""
    if "output_format" not in getattr(getattr(patched, "TopKConfig", None), "__annotations__", ()):
        return []  # the oldest have no configuration that says so
    topk = patched.TopK.__new__(patched.TopK)
    torch.nn.Module.__init__(topk)
    topk.topk_config = Case(torch.randn(8, 64), torch.randn(64), top_k=8).config(patched)
    topk.topk_config.output_format = patched.TopKOutputFormat.BYPASSED
    topk._resolve_routing_inputs = lambda *given: given  # 0.5.22 on asks a running server
    patched._oea.proven.discard("eager")
    proofs()
    note()
    out = topk.forward_cuda(torch.zeros(8, 4), torch.randn(8, 64))
    radix_attention._oea_note.take(None)
    found = proofs()
    return [] if isinstance(out, patched.BypassedTopKOutput) and not found else [f"{type(out)}, {found}"]


def left_at_home(oea, folder):
    """Where a worker of an ordinary user leaves proof when nobody told it where, relative to that home."""
    home, geteuid = folder.parent / "home", os.geteuid
    del os.environ["OEACTL_PROOF_DIR"]
    os.environ["HOME"], os.geteuid = str(home), lambda: 1000
    oea.proven.discard("eager")
    oea.prove("eager")
    os.geteuid = geteuid
    return [str(path.parent.relative_to(home)) for path in home.rglob("eager-*.json")]


def main():
    out = sys.stdout
    sys.stdout = sys.stderr  # SGLang prints
    torch.manual_seed(0)
    checks = {
        name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")
    }
    answer = {}
    for name in ["proof", *(name for name in checks if name != "proof")]:
        try:
            answer[name] = checks[name]()
        except Exception:  # noqa: BLE001 - one check that breaks must not hide the others
            answer[name] = [traceback.format_exc()]
        radix_attention._oea_note.take(None)
    json.dump({"failures": answer, **{name: QUESTION.get(name) for name in ("proof", "home", "seen")}}, out)


if __name__ == "__main__":
    main()
