"""Models and functions of PyTorch that tests and benchmarks capture: small, with random weights, not downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Made = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A function or module, and arguments of a call."""


def pointwise() -> Made:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * y + x

    return function, (torch.randn(16), torch.randn(16)), {}


def toy_with_a_break() -> Made:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        x = a / (torch.abs(a) + 1)
        if b.sum() < 0:
            b = b * -1
        return x * b

    return function, (torch.randn(10), torch.ones(10)), {}


def perceptron() -> Made:
    layers = [part for _ in range(20) for part in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*layers).eval(), (torch.randn(8, 64),), {}


def transformer_encoder() -> Made:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).train(), (torch.randn(2, 16, 64),), {}


def _text(model: str, config: str, **settings: Any) -> Made:
    import transformers

    torch.manual_seed(0)
    made = getattr(transformers, model)(getattr(transformers, config)(**settings)).eval()
    return made, (), {"input_ids": torch.randint(0, 100, (2, 16))}


def bert() -> Made:
    return _text(
        "BertModel",
        "BertConfig",
        vocab_size=100,
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=128,
    )


def gpt2() -> Made:
    model, args, kwargs = _text("GPT2LMHeadModel", "GPT2Config", vocab_size=100, n_embd=64, n_layer=4, n_head=4)
    return model, args, {**kwargs, "use_cache": False}


def llama() -> Made:
    model, args, kwargs = _text(
        "LlamaForCausalLM", "LlamaConfig", vocab_size=100, hidden_size=64, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=128,
    )  # fmt: skip
    return model, args, {**kwargs, "use_cache": False}


def t5() -> Made:
    model, args, kwargs = _text(
        "T5ForConditionalGeneration", "T5Config", vocab_size=100, d_model=64, d_kv=16, d_ff=128, num_layers=3,
        num_heads=4, decoder_start_token_id=0,
    )  # fmt: skip
    return model, args, {**kwargs, "decoder_input_ids": torch.randint(0, 100, (2, 8)), "use_cache": False}


def mixtral() -> Made:
    model, args, kwargs = _text(
        "MixtralForCausalLM", "MixtralConfig", vocab_size=100, hidden_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, intermediate_size=128, num_local_experts=4,
    )  # fmt: skip
    return model, args, {**kwargs, "use_cache": False}


def resnet50() -> Made:
    import transformers

    torch.manual_seed(0)
    config = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[32, 64, 128, 256], depths=[3, 4, 6, 3])
    return transformers.ResNetModel(config).eval(), (torch.randn(1, 3, 64, 64),), {}


def vit() -> Made:
    import transformers

    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=64, num_hidden_layers=4, num_attention_heads=4, intermediate_size=128, image_size=32, patch_size=8
    )
    return transformers.ViTModel(config).eval(), (torch.randn(2, 3, 32, 32),), {}


MODELS: dict[str, Callable[[], Made]] = {
    "pointwise": pointwise,
    "toy": toy_with_a_break,
    "perceptron": perceptron,
    "encoder": transformer_encoder,
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "t5": t5,
    "mixtral": mixtral,
    "resnet50": resnet50,
    "vit": vit,
}
