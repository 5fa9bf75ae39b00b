"""Generates completions by CUDA graphs: a decoding step is recorded once per batch and replayed.

A small model spends its decoding in launching kernels, hundreds a token; a replay is one launch. The step
works on tensors that stay where they are, which a growing cache does not. Without a GPU the same steps run
unrecorded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, LlamaForCausalLM

from questloop.errors import UsageError

_CHECK_EVERY = 16
"""steps between two looks at whether every completion has ended; a look waits for the GPU"""
_CACHE = "cache" if "cache" in inspect.signature(LlamaForCausalLM.forward).parameters else "past_key_values"
"""what this version of transformers calls the argument"""
# Options of sampling that the step does not know, and the values at which they do nothing.
_WITHOUT = {
    "top_k": (0, None),
    "top_p": (1.0, None),
    "min_p": (0.0, None),
    "repetition_penalty": (1.0, None),
    "use_vllm": (False,),
    "use_transformers_continuous_batching": (False,),
}


def check(trainer: Any) -> None:
    """Raise `UsageError` for options of the trainer that would silently do nothing."""
    for name, allowed in _WITHOUT.items():
        if (value := getattr(trainer, name, allowed[0])) not in allowed:
            raise UsageError(f"--cuda_graphs: not together with --{name} {value}; leave one of them out")


def install(model: Any) -> None:
    """Make `model.generate` decode by recorded steps. Raises `UsageError` for layers it does not fit."""
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        raise UsageError(f"--cuda_graphs: the model has layers of {', '.join(sorted(kinds))}; leave it out")
    model.generate = partial(generate, model)


@torch.no_grad()
def generate(
    model: Any, input_ids: Tensor, attention_mask: Tensor, generation_config: Any, **_: Any
) -> Tensor:
    """Sample up to `max_new_tokens` after left-padded prompts i64[B, P]: i64[B, P + max_new_tokens].

    Of `generation_config` it follows max_new_tokens, min_new_tokens, do_sample, temperature, eos_token_id and
    pad_token_id. After its end a completion is padded.
    """
    decoding = _Decoding(model, input_ids, attention_mask, generation_config)
    steps = generation_config.max_new_tokens - 1
    step = decoding.step
    if input_ids.is_cuda and steps > 1:
        step = _recorded(step)
        steps -= 1
    for number in range(steps):
        if number % _CHECK_EVERY == 0 and bool(decoding.finished.all()):
            break
        step()
    return decoding.ids


class _Decoding:
    """The state of a batch of B completions; every tensor keeps its place from the first step on."""

    def __init__(self, model: Any, input_ids: Tensor, attention_mask: Tensor, config: Any) -> None:
        batch, prompt = input_ids.shape
        length = prompt + config.max_new_tokens
        device = input_ids.device
        ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
        self.model = model
        self.temperature = (config.temperature or 1.0) if config.do_sample else 0.0
        self.ends = torch.tensor(ends, device=device)
        self.pad = torch.tensor(config.pad_token_id, device=device)
        self.shortest = prompt + (config.min_new_tokens or 0)

        self.ids = torch.full((batch, length), config.pad_token_id, device=device)
        self.ids[:, :prompt] = input_ids
        self.slot = torch.tensor([prompt - 1], device=device)
        self.token = input_ids[:, -1:].clone()
        self.position = attention_mask.sum(dim=1, keepdim=True) - 1
        self.attended = torch.zeros((batch, 1, 1, length), dtype=torch.bool, device=device)
        self.attended[..., :prompt] = attention_mask[:, None, None].bool()
        self.finished = torch.zeros(batch, dtype=torch.bool, device=device)

        seen = DynamicCache()
        positions = (attention_mask.cumsum(dim=1) - 1).clamp(min=0)
        logits = model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{_CACHE: seen},
        ).logits
        self.cache = _Slots(seen, length, self.slot)
        self._take(logits[:, -1])

    def step(self) -> None:
        """Feed the newest token of every completion and take the next."""
        self.attended.index_fill_(3, self.slot, True)
        logits = self.model(
            input_ids=self.token,
            attention_mask=self.attended,
            position_ids=self.position,
            use_cache=True,
            **{_CACHE: self.cache},
        ).logits
        self._take(logits[:, -1])

    def _take(self, logits: Tensor) -> None:
        self.slot += 1
        self.position += 1
        logits = logits.float()
        too_short = self.slot < self.shortest
        at_ends = logits.index_select(1, self.ends).masked_fill(too_short, -torch.inf)
        logits = logits.index_copy(1, self.ends, at_ends)
        if self.temperature:
            # the largest of p / E with E ~ Exp(1) is a draw from p
            p = (logits / self.temperature).softmax(dim=-1)
            logits = p / torch.empty_like(p).exponential_()
        chosen = torch.where(self.finished, self.pad, logits.argmax(dim=-1))
        self.finished |= (chosen[:, None] == self.ends).any(dim=1)
        self.token.copy_(chosen[:, None])
        self.ids.index_copy_(1, self.slot, self.token)


class _Slots(Cache):
    """Keys and values of every layer, [B, H, L, D], in tensors of the final length, written at `slot`."""

    def __init__(self, seen: DynamicCache, length: int, slot: Tensor) -> None:
        super().__init__(layers=[])
        self.slot = slot
        layers: list[Any] = seen.layers
        self.tensors = [
            (_widened(layer.keys, length, layer.values.dtype), _widened(layer.values, length))
            for layer in layers
        ]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        keys, values = self.tensors[layer_idx]
        # under autocast the prompt's cache may have another type than what a step gives
        keys.index_copy_(2, self.slot, key_states.to(keys.dtype))
        values.index_copy_(2, self.slot, value_states.to(values.dtype))
        return keys, values


def _widened(states: Tensor, length: int, dtype: torch.dtype | None = None) -> Tensor:
    """`states` [B, H, P, D] at the front of zeros [B, H, length, D]."""
    batch, heads, prompt, size = states.shape
    wide = states.new_zeros((batch, heads, length, size), dtype=dtype)
    wide[:, :, :prompt] = states
    return wide


def _recorded(step: Callable[[], None]) -> Callable[[], None]:
    """Run `step` once, which sets up what it needs, record it, and return the replay."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        step()
        graph.capture_begin(capture_error_mode="thread_local")
        step()
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph.replay  # type: ignore[no-any-return]
