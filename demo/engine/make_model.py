"""Make the demo's model: a small GLM-4-MoE with random weights and a tokenizer of its own. Downloads nothing.

    python make_model.py FOLDER

105 M parameters in bfloat16 (202 MB): 3 layers, 2 of them MoE with 128 experts, 8 a token. Big enough that
throughput on a CPU follows the number of distinct experts a step activates. The same every time.
"""

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

SENTENCES = (
    "The router picks eight experts for every token. ",
    "A batch of decode steps reads the weights of every expert that any of its tokens asked for. ",
    "Measure twice, restart once, and keep the evidence. ",
    "Grey herons stand in the shallow water until the light is gone. ",
)
SPECIAL = ["<|pad|>", "<|eos|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
PAD, EOS = 0, 1
CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
VOCABULARY = 512
EXPERTS = 128
CONFIG = {
    "architectures": ["Glm4MoeForCausalLM"],
    "model_type": "glm4_moe",
    "torch_dtype": "bfloat16",
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "bos_token_id": None,
    "eos_token_id": EOS,
    "pad_token_id": PAD,
    "tie_word_embeddings": False,
    "hidden_size": 512,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "initializer_range": 0.05,
    "num_hidden_layers": 3,
    "first_k_dense_replace": 1,
    "intermediate_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "attention_bias": True,
    "use_qk_norm": False,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
    "n_routed_experts": EXPERTS,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "moe_intermediate_size": 256,
    "norm_topk_prob": True,
    "n_group": 1,
    "topk_group": 1,
    "routed_scaling_factor": 1.0,
    "num_nextn_predict_layers": 0,
}


def save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES * 50, trainer)
    whole = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=SPECIAL[PAD],
        eos_token=SPECIAL[EOS],
        clean_up_tokenization_spaces=False,
    )
    whole.chat_template = CHAT
    whole.save_pretrained(folder)


def save_model(folder: Path) -> int:
    """Write config and weights; returns the number of parameters."""
    config = folder / "config.json"
    config.write_text(json.dumps(CONFIG, indent=1))
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).to(torch.bfloat16)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if "e_score_correction_bias" in name:
            tensor.data.normal_(0, 0.05)
        if name.endswith("gate.weight") and tensor.shape[0] == EXPERTS:
            tensor.data.normal_(0, 0.2)
    model.save_pretrained(folder)
    saved = json.loads(config.read_text())
    config.write_text(json.dumps({**saved, "torch_dtype": "bfloat16"}, indent=1))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": EOS, "pad_token_id": PAD}))
    return sum(parameter.numel() for parameter in model.parameters())


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    save_tokenizer(target)
    print(f"{save_model(target) / 1e6:.1f} M parameters in {target}")
