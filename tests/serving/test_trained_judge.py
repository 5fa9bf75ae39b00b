"""A trained judge answers in the judges' own form, from the probability of one word."""

import math

import numpy as np
import pytest
from fastapi import FastAPI, Request
from gguf import GGUFReader

from questloop.errors import UnavailableError
from questloop.judges.pairwise import SEPARATOR
from questloop.serving.background import AppServer
from questloop.serving.protocol import ChatRequest
from questloop.serving.trained_judge import ADAPTER, TrainedJudge, share_of_first


class FakeModel:
    """Stands in for a language model: fixed probabilities of first tokens; keeps what it was asked."""

    def __init__(self):
        self.asked = []
        self.likely = {"A": 0.6, "B": 0.2, "yes": 0.1, "no": 0.3}
        self.app = FastAPI()

        @self.app.post("/v1/chat/completions")
        async def chat(request: Request):
            self.asked.append(await request.json())
            top = [{"token": token, "logprob": math.log(p)} for token, p in self.likely.items()]
            return {"choices": [{"logprobs": {"content": [{"top_logprobs": top}]}}]}


@pytest.fixture
def model():
    return FakeModel()


@pytest.fixture
def judge(model):
    with AppServer(model.app, 0) as server:
        judge = TrainedJudge(f"{server.root_url}/v1", "m")
        yield judge
        judge.close()


def request(text):
    return ChatRequest(
        model="judge", messages=[{"role": "system", "content": "s"}, {"role": "user", "content": text}]
    )


def test_a_segment_gets_the_probability_of_a_milestone(judge, model):
    answer = judge(request("Segment of 300 steps, 0 to 299."))
    assert answer["overall"] == answer["progress"] == 0.25
    assert answer["dialog"] is answer["efficiency"] is answer["puzzle"] is answer["novelty"] is None
    assert model.asked[0]["messages"][1]["content"] == "Segment of 300 steps, 0 to 299."


def test_a_state_gets_the_tenths_that_are_likely(judge, model):
    model.likely = {"2": 0.3, "3": 0.1, "x": 0.5}
    text = "State of the game.\nReached: nothing"
    assert judge(request(text))["overall"] == pytest.approx((0.75 * 2.5 + 0.25 * 3.5) / 10)
    assert "tenths" in model.asked[0]["messages"][0]["content"]
    assert model.asked[0]["messages"][1]["content"] == text


def test_two_states_are_asked_which_is_nearer(judge, model):
    first, second = "State of the game.\nReached: sword_1", "State of the game.\nReached: nothing"
    assert judge(request(f"A:\n{first}\n{SEPARATOR}{second}"))["overall"] == 0.75
    assert "nearer" in model.asked[0]["messages"][0]["content"]
    assert model.asked[0]["messages"][1]["content"] == f"A:\n{first}\n\nB:\n{second}"


def test_a_pair_is_asked_as_in_training(judge, model):
    assert judge(request(f"A:\nfirst\n{SEPARATOR}second"))["overall"] == 0.75
    assert model.asked[0]["messages"][1]["content"] == "A:\nfirst\n\nB:\nsecond"
    assert model.asked[0]["max_tokens"] == 1


def test_a_model_that_is_gone_is_named(judge):
    dead = TrainedJudge("http://127.0.0.1:9/v1", "m")
    with pytest.raises(UnavailableError, match="the model of the trained judge gave no answer"):
        dead(request("text"))
    dead.close()


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "nonsense", "http://127.0.0.1:9"])
def test_the_model_beside_it_is_asked_by_no_proxy(monkeypatch, judge, model, proxy):
    monkeypatch.setenv("ALL_PROXY", proxy)
    beside = TrainedJudge(str(judge._client.base_url), "m")
    assert beside(request("text"))
    beside.close()


def test_labels_that_are_unlikely_say_nothing():
    assert share_of_first([{"token": "The", "logprob": -0.1}], ["yes", "no"]) == 0.5


def test_the_adapter_that_ships_is_a_lora_for_every_layer_of_the_model():
    reader = GGUFReader(ADAPTER)
    assert ADAPTER.stat().st_size <= 10_000_000
    assert reader.fields["general.type"].contents() == "adapter"
    assert reader.fields["general.architecture"].contents() == "llama"
    layers = {tensor.name.removeprefix("blk.").partition(".")[0] for tensor in reader.tensors}
    assert layers == {str(number) for number in range(30)}
    assert len(reader.tensors) == 30 * 7 * 2
    assert all(np.isfinite(tensor.data).all() for tensor in reader.tensors)
