"""An adapter in the form that llama.cpp loads."""

import warnings

import numpy as np
import pytest

from questloop.errors import BadDataError
from questloop.grpo.gguf import adapter_to_gguf, dequantise, interleave_rotary


@pytest.fixture(scope="module")
def llama_adapter(tmp_path_factory):
    """A tiny Llama, an adapter with weights that are not zero, and both folders."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("llama")
    config = LlamaConfig(
        vocab_size=32, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
        num_key_value_heads=1, max_position_embeddings=64,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder / "base")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PEFT asks for what transformers renamed
        adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear"))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    adapted.save_pretrained(folder / "adapter")
    return folder


def test_every_layer_and_the_scale_arrive(llama_adapter):
    from gguf import GGUFReader
    from safetensors.numpy import load_file

    reader = GGUFReader(
        adapter_to_gguf(llama_adapter / "adapter", llama_adapter / "base", llama_adapter / "a.gguf")
    )
    fields = {name: field.contents() for name, field in reader.fields.items()}
    assert fields["general.architecture"] == "llama"
    assert (fields["general.type"], fields["adapter.type"]) == ("adapter", "lora")
    assert fields["adapter.lora.alpha"] == 8.0
    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    assert len(tensors) == 2 * 7 * 2
    weights = load_file(llama_adapter / "adapter" / "adapter_model.safetensors")
    prefix = "base_model.model.model.layers.1."
    down = weights[prefix + "mlp.down_proj.lora_A.weight"]
    assert tensors["blk.1.ffn_down.weight.lora_a"] == pytest.approx(down, abs=1e-3)
    key = weights[prefix + "self_attn.k_proj.lora_B.weight"]
    assert tensors["blk.1.attn_k.weight.lora_b"] == pytest.approx(interleave_rotary(key, heads=1), abs=2e-3)
    assert not np.allclose(tensors["blk.1.attn_k.weight.lora_b"], key, atol=2e-3)


def test_the_order_of_rows_is_the_one_that_transformers_undoes():
    from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

    rows = np.arange(48.0).reshape(24, 2)
    undone = LlamaTensorProcessor()._reverse_permute_weights(interleave_rotary(rows, heads=3), 3, 3)
    assert np.array_equal(undone, rows)


def test_what_cannot_be_converted_is_named(llama_adapter, tiny_model, tmp_path):
    with pytest.raises(BadDataError, match="a qwen2 model; only llama models"):
        adapter_to_gguf(llama_adapter / "adapter", tiny_model, tmp_path / "a.gguf")
    with pytest.raises(BadDataError, match="no such file"):
        dequantise(tmp_path / "nowhere.gguf", tmp_path / "out")
