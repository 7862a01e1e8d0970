"""Models and functions of PyTorch that tests and benchmarks capture: small, with random weights, not downloaded."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from machine import machine
from torch import nn
from torch.utils._pytree import tree_map_only

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


class Architecture(NamedTuple):
    """A model of the package transformers, as small as its configuration lets it be."""

    model: str
    config: str
    settings: dict[str, Any]
    inputs: Callable[[], dict[str, torch.Tensor]]
    has_cache: bool = False
    """It would keep keys and values for tokens to come."""

    def made(self) -> Made:
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, self.config)(**self.settings)
        model = getattr(transformers, self.model)(config).eval()
        inputs: dict[str, Any] = self.inputs()
        return model, (), {**inputs, "use_cache": False} if self.has_cache else inputs


def _tokens() -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(0, 100, (2, 16))}


def _tokens_and_answer() -> dict[str, torch.Tensor]:
    return {**_tokens(), "decoder_input_ids": torch.randint(0, 100, (2, 8))}


def _pixels() -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(2, 3, 32, 32)}


def _sound() -> dict[str, torch.Tensor]:
    return {"input_features": torch.randn(2, 8, 64), "decoder_input_ids": torch.randint(0, 100, (2, 8))}


_SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
_TEXT = {**_SMALL, "vocab_size": 100}
_GROUPED = {**_TEXT, "num_key_value_heads": 2}
_IMAGE = {**_SMALL, "image_size": 32, "patch_size": 8}
_TWO_SIDED = {"vocab_size": 100, "d_model": 64} | {
    f"{side}_{part}": value
    for side in ("encoder", "decoder")
    for part, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 128))
}

ARCHITECTURES = {
    "bert": Architecture("BertModel", "BertConfig", {**_TEXT, "num_hidden_layers": 4}, _tokens),
    "gpt2": Architecture(
        "GPT2LMHeadModel", "GPT2Config", {"vocab_size": 100, "n_embd": 64, "n_layer": 4, "n_head": 4}, _tokens, True
    ),
    "llama": Architecture("LlamaForCausalLM", "LlamaConfig", {**_GROUPED, "num_hidden_layers": 4}, _tokens, True),
    "t5": Architecture(
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": 100, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 3, "num_heads": 4}
        | {"decoder_start_token_id": 0},
        _tokens_and_answer,
        True,
    ),
    "mixtral": Architecture("MixtralForCausalLM", "MixtralConfig", {**_GROUPED, "num_local_experts": 4}, _tokens, True),
    "resnet50": Architecture(
        "ResNetModel",
        "ResNetConfig",
        {"embedding_size": 16, "hidden_sizes": [32, 64, 128, 256], "depths": [3, 4, 6, 3]},
        lambda: {"pixel_values": torch.randn(1, 3, 64, 64)},
    ),
    "vit": Architecture("ViTModel", "ViTConfig", {**_IMAGE, "num_hidden_layers": 4}, _pixels),
    "roberta": Architecture("RobertaModel", "RobertaConfig", _TEXT, _tokens),
    "distilbert": Architecture(
        "DistilBertModel",
        "DistilBertConfig",
        {"vocab_size": 100, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128},
        _tokens,
    ),
    "electra": Architecture("ElectraModel", "ElectraConfig", {**_TEXT, "embedding_size": 64}, _tokens),
    "albert": Architecture("AlbertModel", "AlbertConfig", {**_TEXT, "embedding_size": 32}, _tokens),
    "mpnet": Architecture("MPNetModel", "MPNetConfig", _TEXT, _tokens),
    "deberta": Architecture(
        "DebertaV2Model",
        "DebertaV2Config",
        {**_TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        _tokens,
    ),
    "modernbert": Architecture(
        "ModernBertModel",
        "ModernBertConfig",
        {**_TEXT, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
        _tokens,
    ),
    "xlnet": Architecture(
        "XLNetModel",
        "XLNetConfig",
        {"vocab_size": 100, "d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128},
        _tokens,
    ),
    "opt": Architecture(
        "OPTForCausalLM", "OPTConfig", {**_TEXT, "ffn_dim": 128, "word_embed_proj_dim": 64}, _tokens, True
    ),
    "gpt-neox": Architecture("GPTNeoXForCausalLM", "GPTNeoXConfig", _TEXT, _tokens, True),
    "mistral": Architecture("MistralForCausalLM", "MistralConfig", _GROUPED, _tokens, True),
    "qwen2": Architecture("Qwen2ForCausalLM", "Qwen2Config", _GROUPED, _tokens, True),
    "gemma": Architecture("GemmaForCausalLM", "GemmaConfig", {**_GROUPED, "head_dim": 16}, _tokens, True),
    "phi": Architecture("PhiForCausalLM", "PhiConfig", _TEXT, _tokens, True),
    "falcon": Architecture("FalconForCausalLM", "FalconConfig", _TEXT, _tokens, True),
    "bloom": Architecture(
        "BloomForCausalLM",
        "BloomConfig",
        {"vocab_size": 100, "hidden_size": 64, "n_layer": 2, "n_head": 4},
        _tokens,
        True,
    ),
    "mamba": Architecture("MambaForCausalLM", "MambaConfig", {**_TEXT, "state_size": 8}, _tokens, True),
    "bart": Architecture("BartModel", "BartConfig", _TWO_SIDED, _tokens_and_answer, True),
    "whisper": Architecture(
        "WhisperModel",
        "WhisperConfig",
        {**_TWO_SIDED, "num_mel_bins": 8, "max_source_positions": 32, "pad_token_id": 0, "decoder_start_token_id": 1},
        _sound,
        True,
    ),
    "wav2vec2": Architecture(
        "Wav2Vec2Model",
        "Wav2Vec2Config",
        {**_TEXT, "conv_dim": (32, 32), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2}
        | {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4},
        lambda: {"input_values": torch.randn(2, 1000)},
    ),
    "deit": Architecture("DeiTModel", "DeiTConfig", _IMAGE, _pixels),
    "swin": Architecture(
        "SwinModel",
        "SwinConfig",
        {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
        _pixels,
    ),
    "convnext": Architecture(
        "ConvNextModel", "ConvNextConfig", {"hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 2, 1]}, _pixels
    ),
    "mobilenet": Architecture(
        "MobileNetV2Model", "MobileNetV2Config", {"depth_multiplier": 0.35, "image_size": 32}, _pixels
    ),
    "segformer": Architecture(
        "SegformerModel", "SegformerConfig", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}, _pixels
    ),
    "clip": Architecture(
        "CLIPModel", "CLIPConfig", {"text_config": _TEXT, "vision_config": _IMAGE}, lambda: {**_tokens(), **_pixels()}
    ),
}

MODELS: dict[str, Callable[[], Made]] = {
    "pointwise": pointwise,
    "toy": toy_with_a_break,
    "perceptron": perceptron,
    "encoder": transformer_encoder,
    **{name: architecture.made for name, architecture in ARCHITECTURES.items()},
}


def made_on(device: str, name: str) -> Made:
    """The same numbers in each call."""
    torch.manual_seed(0)
    function, args, kwargs = MODELS[name]()
    args, kwargs = tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), (args, kwargs))
    return function.to(device) if isinstance(function, nn.Module) else function, args, kwargs


def wait() -> None:
    """A GPU goes on behind the end of a call."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what it gives."""
    wait()
    start = time.perf_counter()
    result = call()
    wait()
    return time.perf_counter() - start, result


def parser_of(doc: str | None, only: Iterable[str] = MODELS) -> argparse.ArgumentParser:
    """What all benchmarks of these models can be told; `only`: those that are measured if nothing is said."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(MODELS), default=list(only))
    says = "torch.compiler.is_compiling() is True in what evalframe captures, too"
    parser.add_argument("--is-compiling", action="store_true", help=says)
    parser.add_argument("--device", default="cpu")
    return parser


def begin(device: str) -> None:
    """On one thread; prints where."""
    torch.set_num_threads(1)
    print(machine(), where(device), sep=", ")


def where(device: str) -> str:
    return f"torch {torch.__version__} on {torch.cuda.get_device_name(device) if device.startswith('cuda') else device}"
