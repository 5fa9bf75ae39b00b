"""Agreement with outcomes, and a language model read by the probabilities of its labels."""

import numpy as np
import pytest
import torch
from benchmarks.judges.agreement import agreement, correct

from questloop.errors import UsageError
from questloop.grpo.language_judge import LanguageJudge


@pytest.fixture(scope="module")
def judge(tiny_chat_model):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny_chat_model)
    torch.manual_seed(1)
    for parameter in model.parameters():  # logits that differ
        torch.nn.init.normal_(parameter, std=0.3)
    return LanguageJudge(model, AutoTokenizer.from_pretrained(tiny_chat_model), batch_size=2)


def messages(text):
    return [{"role": "user", "content": text}]


def test_probabilities_do_not_depend_on_the_batch(judge):
    prompts = [messages(text) for text in ("a", "abcabcabc", "jj", "abc", "cccccc")]
    together, share = judge.probabilities(prompts, ["a", "b", "c"])
    alone = np.vstack([judge.probabilities([prompt], ["a", "b", "c"])[0] for prompt in prompts])
    assert together == pytest.approx(alone, abs=1e-4)
    assert together.sum(axis=1) == pytest.approx(1)
    assert np.all((share > 0) & (share < 1))
    assert np.ptp(together[:, 0]) > 0.01


def test_labels_that_begin_alike_are_refused(judge):
    with pytest.raises(UsageError, match="begin with the same token"):
        judge.probabilities([messages("a")], ["aa", "ab"])


def test_a_preference_is_the_same_whichever_is_shown_first(judge):
    judge.tokenizer.add_tokens(["A", "B"])
    judge.model.resize_token_embeddings(len(judge.tokenizer))
    pairs = [("abc", "jjj"), ("bbb", "a")]
    forward = judge.preferences(pairs)
    backward = judge.preferences([(b, a) for a, b in pairs])
    assert forward == pytest.approx(1 - backward, abs=1e-5)


def test_a_judge_that_always_says_first_gets_half():
    hits = correct(np.array([0.5] * 10))
    assert hits.mean() == 0.5
    assert correct(np.array([1.0, 0.0])).tolist() == [1.0, 0.0]


def test_the_interval_covers_and_shrinks_with_episodes():
    rng = np.random.default_rng(0)

    def measured(episodes):
        pairs = [(f"e{a}", f"e{b}") for a, b in rng.integers(episodes, size=(600, 2))]
        return agreement([(rng.random(600) < 0.8).astype(float)], [pairs])

    few, many = measured(6), measured(100)
    assert few.low < 0.8 < few.high
    assert many.low < 0.8 < many.high
    assert many.high - many.low < 0.25


def test_one_lucky_episode_makes_a_wide_interval():
    hits = [np.array([1.0] * 50 + [0.0] * 50)]
    pairs = [[("a", "a")] * 50 + [("b", "b")] * 50]
    result = agreement(hits, pairs)
    assert (result.accuracy, result.low, result.high) == (0.5, 0.0, 1.0)


def test_runs_are_averaged():
    hits = [np.ones(10), np.zeros(10)]
    pairs = [[(f"{n}", f"{n + 1}") for n in range(10)]] * 2
    assert agreement(hits, pairs).accuracy == 0.5
