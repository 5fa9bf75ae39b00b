"""Converts to and from GGUF, the format of the local judge server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from questloop.errors import BadDataError, MissingExtraError

# Names of llama.cpp for the layers of a Llama model that an adapter can change.
_LAYERS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_TENSOR = re.compile(r"base_model\.model\.model\.layers\.(\d+)\.(\w+\.\w+)\.lora_([AB])\.weight")


def dequantise(gguf_file: Path, folder: Path) -> Path:
    """Write a GGUF model as a plain one in float32 with its tokenizer: a quantised one cannot be trained.

    Its weights are exactly those that the quantised file stands for, so that an adapter trained on the one
    fits the other.
    """
    _import_gguf()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    if not gguf_file.is_file():
        raise BadDataError(f"{gguf_file}: no such file")
    names: dict[str, Any] = {
        "pretrained_model_name_or_path": str(gguf_file.parent),
        "gguf_file": gguf_file.name,
    }
    model = AutoModelForCausalLM.from_pretrained(
        **names, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    tokenizer = AutoTokenizer.from_pretrained(**names)
    # which tokens these are the file says; some versions of transformers read it wrongly
    end = tokenizer.convert_ids_to_tokens(model.config.eos_token_id)
    tokenizer.eos_token = end
    tokenizer.pad_token = tokenizer.pad_token or end
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def adapter_to_gguf(adapter: Path, base: Path, out: Path) -> Path:
    """Convert a PEFT LoRA adapter of a Llama model to GGUF, in float16.

    `adapter` is the folder that training wrote, `base` the folder of the model it was trained on. Raises
    `BadDataError` for layers that llama.cpp has no adapter for.
    """
    gguf = _import_gguf()
    from safetensors.numpy import load_file

    config = json.loads((adapter / "adapter_config.json").read_text("utf-8"))
    model = json.loads((base / "config.json").read_text("utf-8"))
    if model["model_type"] != "llama":
        raise BadDataError(f"{base}: a {model['model_type']} model; only llama models are converted")
    writer = gguf.GGUFWriter(str(out), arch="llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(config["lora_alpha"]))
    for name, tensor in sorted(load_file(adapter / "adapter_model.safetensors").items()):
        match = _TENSOR.fullmatch(name)
        if match is None or match[2] not in _LAYERS:
            raise BadDataError(f"{adapter}: {name}: llama.cpp has no adapter for this layer")
        heads = {
            "self_attn.q_proj": model["num_attention_heads"],
            "self_attn.k_proj": model.get("num_key_value_heads") or model["num_attention_heads"],
        }.get(match[2])
        if match[3] == "B" and heads:
            tensor = interleave_rotary(tensor, heads)
        target = f"blk.{match[1]}.{_LAYERS[match[2]]}.weight.lora_{match[3].lower()}"
        writer.add_tensor(target, np.ascontiguousarray(tensor.astype(np.float16)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def interleave_rotary(rows: np.ndarray, heads: int) -> np.ndarray:
    """Reorder output rows [out, ...] of a query or key layer as llama.cpp has them.

    Transformers rotates the two halves of a head against each other, llama.cpp neighbouring rows.

    >>> interleave_rotary(np.arange(4), heads=1).tolist()
    [0, 2, 1, 3]
    """
    by_half = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return by_half.swapaxes(1, 2).reshape(rows.shape)


def _import_gguf() -> Any:
    try:
        import gguf
    except ImportError:
        raise MissingExtraError("gguf", "grpo") from None
    return gguf
