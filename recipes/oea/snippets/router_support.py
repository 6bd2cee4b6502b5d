class _Oea:
    """Opportunistic expert activation (arXiv:2511.02237), inserted by oeactl.

    In decode each token votes for its best k0 experts, and the gate then chooses among the elected ones
    alone: tokens share what the batch reads anyway. Everything else stays the engine's.
    """

    def __init__(self):
        import os

        self.proven = set()  # kinds of proof that this process has left
        self.skipped = {}  # why a batch of decode was left alone -> router calls
        self.compiled = False  # torch.compile traced the branch, and nothing may be written meanwhile
        self.counting = os.environ.get("OEACTL_EXPERTS") == "1"
        self.decoding = None  # (layer, experts a token, what it chose without OEA) of the batch at the gate
        self.counts = {}  # rows -> layer -> {steps, and distinct experts of the last ones: before, after}
        self.last_layer = -1
        gates = ("grouped_topk", "fused_topk_native", "fused_topk")
        self.gates = {name: self.known(globals().get(name)) for name in gates}

    @staticmethod
    def known(gate):
        """(its own name, what it can be told) of a gate of this release; nothing of one that is not there."""
        import inspect

        try:
            return getattr(gate, "__name__", ""), frozenset(inspect.signature(gate).parameters)
        except (TypeError, ValueError):
            return "", frozenset()

    def gate_of(self, config, bias):
        """(scoring, bias, name) of the gate for this layer, as it is and not as the model asks.

        Gates of some releases score by softmax whatever is asked. A bias for softmax is added by the native
        gate alone; the fused one for CUDA leaves it out in every release, and that for CPUs in some, so that
        nothing is known of it but for a plain softmax.
        """
        asked = getattr(config, "scoring_func", "softmax")
        if config.use_grouped_topk and bias is not None:
            return "sigmoid", bias, "biased_grouped_topk"
        kind = "fused_topk_native" if config.torch_native else "fused_topk"
        name, told = self.gates["grouped_topk" if config.use_grouped_topk else kind]
        if name == "fused_topk_cpu" and (bias is not None or asked != "softmax"):
            name = ""
        scoring = asked if "scoring_func" in told else "softmax"
        if "correction_bias" not in told or (scoring == "softmax" and name == "fused_topk"):
            bias = None
        return scoring, bias, name

    def route(self, logits, bias, config, *, layer=None, non_padded=None, per_token=None):
        """The gate's logits and bias for one layer, shrunk to the batch's menu; untouched outside decode.

        Third, what the gate's weights are to be multiplied by afterwards, or None.
        """
        from sglang.srt.layers.radix_attention import _oea_note

        left = _oea_note.layer
        mode, why = _oea_note.take(layer)
        watched = not torch.compiler.is_compiling()
        if watched and self.compiled:
            self.prove("compiled")
        shared = getattr(config, "num_fused_shared_experts", 0) or getattr(config, "num_shared_topk_slots", 0)
        if self.counting:
            self.decoding = (left, config.top_k - shared, None) if mode and watched else None
        if OEACTL.k0 >= config.top_k - shared:
            return logits, bias, None
        if not OEACTL.min_tokens <= logits.shape[0] <= OEACTL.max_tokens or not (mode or why):
            return logits, bias, None
        given = bias
        scoring, bias, gate = self.gate_of(config, bias)
        why = why or self.unfit(config, scoring, per_token, gate)
        if why:
            if watched:
                self.skip(why, layer)
            return logits, given, None
        if watched:
            self.taken(mode, layer, logits)
        else:
            self.compiled = True
        if bias is None and config.torch_native and not config.use_grouped_topk:
            logits = logits.float()  # as this gate does
            if gate == "fused_topk_torch_native" and "correction_bias" in self.gates["fused_topk_native"][1]:
                bias = logits.new_zeros(logits.shape[1])  # it breaks ties of zero row by row: now in order
        if self.counting and self.decoding:
            left, routed, _ = self.decoding
            self.decoding = (left, routed, self.best(logits[:non_padded], bias, scoring, routed))
        menu, sunk = self.elect(logits, bias, scoring, non_padded)
        if sunk is None:
            sunk = given
        if scoring == "softmax" and bias is not None:
            return self.weighed(logits, menu, sunk), sunk, None
        if scoring != "softmax" or config.renormalize:
            return menu, sunk, None
        return menu, sunk, self.share(logits, menu)

    @staticmethod
    def unfit(config, scoring, per_token, gate):
        """Why a smaller menu would not give this gate's own choice, or None."""
        if not gate:
            return "nothing is known of how the engine's gate scores"
        if config.use_grouped_topk and config.num_expert_group > config.topk_group:
            return "the choice is limited to groups"
        if scoring not in ("softmax", "sigmoid", "sqrtsoftplus") or config.custom_routing_function:
            return "the model routes by a rule of its own"
        if per_token is not None:
            return "the router's inputs differ from token to token"
        if not getattr(config, "allow_routed_experts_capture", True):
            return "a draft model decodes"
        return None

    @staticmethod
    def best(logits, bias, scoring, count):
        """Each token's best experts as the gate scores them, (tokens, count) in no order."""
        scores = logits if logits.device.type == "cpu" else logits.float()
        if scoring == "softmax":
            scores = scores.softmax(dim=-1)
        elif scoring == "sigmoid":
            scores = scores.sigmoid()
        else:
            scores = torch.nn.functional.softplus(scores).sqrt()
        return torch.topk(scores if bias is None else scores + bias, count, dim=-1, sorted=False)[1]

    @staticmethod
    def elect(logits, bias, scoring, non_padded):
        """The routing rule: everyone's best k0 by the engine's own score form the menu, the rest sinks.

        logits (tokens, experts); bias (experts,) or None; non_padded: the count of real rows, a tensor on
        the device, or None (rows of padding are alike, and then add k0 experts at most). Static shapes, no
        look at the data, no copy to the host: five aten ops, with a bias seven, one more where the dtypes
        of the two differ, three more for the count, one more for 16-bit logits on a GPU, whose gates score
        in float32. An expert off the menu weighs exactly 0; it sinks deeper the higher its index, so that
        all rows short of menu fill up with the same ones, and never down to the -10000 with which fused
        kernels cross out what they took.
        """
        votes = _Oea.best(logits, bias, scoring, OEACTL.k0)
        if non_padded is not None:
            real = torch.arange(votes.shape[0], device=votes.device) < non_padded
            votes = torch.where(real[:, None], votes, votes[:1])
        deepest = -1024 - 8 * logits.shape[1]
        ceiling = torch.arange(-1024, deepest, -8, dtype=logits.dtype, device=logits.device)
        ceiling.index_fill_(0, votes.flatten(), float("inf"))
        menu = torch.minimum(logits, ceiling)
        return menu, None if bias is None else torch.minimum(bias, ceiling.to(bias.dtype))

    @staticmethod
    def weighed(logits, menu, bias):
        """The menu with all that is off it heaped on one expert, so that softmax gives the rest plain scores.

        A bias is added to those scores, and does not grow with them. The expert is the one that the bias
        sinks deepest: it would be the last to fill a row up, and there are more experts than slots.
        """
        whole, menu = logits.float(), menu.float()
        off = whole.where(menu < whole, float("-inf")).logsumexp(dim=-1, keepdim=True)
        deepest = bias.argmin().view(1, 1).expand(len(menu), 1)
        return menu.scatter(1, deepest, torch.maximum(menu.gather(1, deepest), off))

    @staticmethod
    def share(logits, menu):
        """The part of each row's softmax that lies on the menu, (tokens, 1): it makes new scores plain."""
        whole = torch.logsumexp(logits.float(), dim=-1, keepdim=True)
        return (torch.logsumexp(menu.float(), dim=-1, keepdim=True) - whole).exp()

    def count(self, ids):
        """Note how many experts the gate chose for a batch of decode, and would have chosen without OEA.

        Not for a graph, whose replays run no Python.
        """
        decoding, self.decoding = self.decoding, None
        if decoding is None or (ids.is_cuda and torch.cuda.is_current_stream_capturing()):
            return
        layer, routed, before = decoding
        if layer <= self.last_layer:  # a step is over
            self.write("experts", counts=self.counts)
        self.last_layer = layer
        rows = ids.shape[0]
        if rows not in self.counts and len(self.counts) == 4:
            self.counts.pop(next(iter(self.counts)))
        seen = self.counts.setdefault(rows, {}).setdefault(layer, {"steps": 0, "before": [], "after": []})
        seen["steps"] += 1
        after = ids[:, :routed]
        for name, chosen in (("before", after if before is None else before), ("after", after)):
            seen[name].append(chosen[chosen >= 0].unique().numel())
            del seen[name][:-32]

    def skip(self, why, layer):
        """Count a batch of decode that stays as it is; say so the first time."""
        import logging

        if why not in self.skipped:
            logging.getLogger(__name__).warning("OEA is off where %s (layer %s)", why, layer)
            self.write("skipped", layer=layer, reason=why)
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def taken(self, mode, layer, logits):
        """Leave proof of the branch: captured into a CUDA graph, or run as it stands (not in a rehearsal)."""
        if logits.is_cuda and torch.cuda.is_current_stream_capturing():
            self.prove("capture", mode, layer, logits.shape[0])
        elif "eager" not in self.proven and not self.rehearsing():
            self.prove("eager", mode, layer, logits.shape[0])

    @staticmethod
    def rehearsing():
        """Whether a runner warms up for a capture: such a batch is no traffic."""
        import sys

        runners = ("runner_utils.capture_mode", "cuda_graph_runner")
        found = (sys.modules.get(f"sglang.srt.model_executor.{name}") for name in runners)
        return any(getattr(module, "is_capture_mode", False) for module in found)

    def prove(self, kind, mode=None, layer=None, rows=None):
        """Write one small file a process and kind, once."""
        if kind not in self.proven:
            self.proven.add(kind)
            self.write(kind, mode=mode, layer=layer, rows=rows)

    @staticmethod
    def write(kind, **facts):
        """Put the file of that kind in its place; the engine never notices a failure."""
        import hashlib, json, logging, os, pathlib

        if os.environ.get("OEACTL_PROOF") == "0":
            return
        try:
            file = pathlib.Path(__file__).resolve()
            home = "/var/lib" if os.geteuid() == 0 else "~/.local/state"
            root = hashlib.sha256(str(file.parents[3]).encode()).hexdigest()[:16]
            place = os.environ.get("OEACTL_PROOF_DIR") or f"{home}/oeactl/{root}/proof"
            place = pathlib.Path(place).expanduser()
            place.mkdir(parents=True, exist_ok=True)
            stat = pathlib.Path("/proc/self/stat").read_text()
            proof = {
                "kind": kind,
                "recipe": OEACTL.recipe,
                "digest": OEACTL.digest,
                "parameters": {
                    "k0": OEACTL.k0,
                    "min_tokens": OEACTL.min_tokens,
                    "max_tokens": OEACTL.max_tokens,
                },
                "file": str(file),
                "pid": os.getpid(),
                "start_ticks": int(stat.rpartition(")")[2].split()[19]),
                **facts,
            }
            draft = place / f".{kind}-{os.getpid()}"
            draft.write_text(json.dumps(proof))
            draft.replace(place / f"{kind}-{os.getpid()}.json")
        except Exception as error:
            logging.getLogger(__name__).warning("OEA left no proof of kind %s: %s", kind, error)


_oea = _Oea()
_oea.prove("loaded")
