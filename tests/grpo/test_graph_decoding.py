"""Decoding by steps on tensors that stay in place, against the generation of transformers, on a CPU."""

from types import SimpleNamespace

import pytest
import torch
from transformers import DynamicCache, GenerationConfig, LlamaConfig, LlamaForCausalLM

from questloop.errors import UsageError
from questloop.grpo import graph_decoding

PAD, ENDS = 0, list(range(2, 8))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=PAD,
        eos_token_id=2,
    )
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():  # completions that differ
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def prompts(*lengths):
    """Random prompts, padded on the left to the longest."""
    generator = torch.Generator().manual_seed(1)
    longest = max(lengths)
    ids = torch.randint(8, 97, (len(lengths), longest), generator=generator)
    mask = torch.arange(longest)[None] >= longest - torch.tensor(lengths)[:, None]
    return {"input_ids": ids.masked_fill(~mask, PAD), "attention_mask": mask.long()}


def settings(**options):
    return GenerationConfig(pad_token_id=PAD, eos_token_id=ENDS, **options)


@pytest.mark.parametrize("least", [None, 20])
def test_greedy_tokens_are_those_of_transformers(model, least):
    asked = prompts(11, 8, 4, 1, 10)
    config = settings(max_new_tokens=40, min_new_tokens=least, do_sample=False)
    expected = model.generate(**asked, generation_config=config)
    found = graph_decoding.generate(model, **asked, generation_config=config)
    assert torch.equal(found[:, : expected.shape[1]], expected)
    assert torch.all(found[:, expected.shape[1] :] == PAD)
    ended = torch.isin(found[:, 11:], torch.tensor(ENDS))
    assert ended.any()  # else nothing is said about padding
    assert least is None or not ended[:, :least].any()


def test_it_stops_looking_further_when_all_have_ended(model, monkeypatch):
    calls = []
    forward = model.forward
    monkeypatch.setattr(model, "forward", lambda **inputs: calls.append(1) or forward(**inputs))
    config = settings(max_new_tokens=400, do_sample=True)
    config.eos_token_id = list(range(3, 97))
    found = graph_decoding.generate(model, **prompts(5, 5), generation_config=config)
    assert len(calls) < 20
    assert torch.all(found[:, -1] == PAD)


def test_tokens_are_drawn_by_their_probabilities(model):
    torch.manual_seed(0)
    asked = prompts(6)
    many = {name: tensor.expand(20_000, -1) for name, tensor in asked.items()}
    config = settings(max_new_tokens=1, do_sample=True, temperature=0.5)
    drawn = graph_decoding.generate(model, **many, generation_config=config)[:, -1]
    expected = (model(**asked).logits[0, -1] / 0.5).softmax(-1)
    assert torch.bincount(drawn, minlength=97) / 20_000 == pytest.approx(expected.detach(), abs=0.01)


@pytest.mark.parametrize("step_type", [torch.float32, torch.bfloat16])
def test_a_step_may_give_another_type_than_the_prompt(step_type):
    seen = DynamicCache()
    seen.update(torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, 4), 0)
    slots = graph_decoding._Slots(seen, length=4, slot=torch.tensor([2]))
    keys, values = slots.update(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4, dtype=step_type), 0)
    assert keys.sum(-1).flatten().tolist() == values.sum(-1).flatten().tolist() == [0, 0, 4, 0]


def test_options_that_the_step_does_not_know_are_refused():
    graph_decoding.check(SimpleNamespace(top_k=0, top_p=1.0, use_vllm=False))
    with pytest.raises(UsageError, match=r"--cuda_graphs: not together with --top_p 0\.9"):
        graph_decoding.check(SimpleNamespace(top_p=0.9))


def test_layers_that_see_a_window_are_refused(model):
    windowed = SimpleNamespace(config=SimpleNamespace(layer_types=["full_attention", "sliding_attention"]))
    with pytest.raises(UsageError, match="sliding_attention"):
        graph_decoding.install(windowed)
    assert not hasattr(windowed, "generate")
