"""The same request, in process and over HTTP; replies that are no plans."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from questloop.episodes.mode import Mode
from questloop.game.profiles.mossgrove import PROFILE
from questloop.llm.reply import ChatError
from questloop.planner.client import EmbeddedPlanner, RemotePlanner, messages, prompt, request
from questloop.planner.plan import InvalidPlan, Plan
from questloop.serving.server import LocalServer
from questloop.settings import LLMSettings


@pytest.fixture
def document(table, found):
    table.set_up(found["room 4:11"], 0)
    return request(Mode.PUZZLE, table.scene, PROFILE)


@pytest.mark.parametrize("mode", [Mode.DIALOG, Mode.PUZZLE])
def test_the_embedded_planner_says_the_same_over_http(document, mode):
    here = EmbeddedPlanner().ask(mode, document).result()
    with LocalServer() as server:
        remote = RemotePlanner(LLMSettings(), server.url)
        there = remote.ask(mode, document).result(60)
        remote.close()
    assert isinstance(here, Plan)
    assert there == here


def test_a_picture_goes_to_the_route_of_vision(document):
    asked = []

    def look(request):
        asked.append(request.user)
        return {"macros": [{"do": "ATTACK"}]}

    picture = np.full((144, 160, 3), 96, np.uint8)
    with LocalServer({"embedded-planner-vision": look}) as server:
        remote = RemotePlanner(LLMSettings(), server.url)
        assert remote.sees
        plan = remote.ask(Mode.PUZZLE, document, picture).result(60)
        remote.close()
    assert plan.macros[0].do == "ATTACK"
    assert json.loads(asked[0].text) == document
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(asked[0].png))), picture)


def test_a_reply_without_a_plan_is_refused(document):
    with LocalServer({"embedded-planner-puzzle": lambda _: {"macros": [{"do": "FLY"}]}}) as server:
        remote = RemotePlanner(LLMSettings(), server.url)
        with pytest.raises(InvalidPlan, match="macros"):
            remote.ask(Mode.PUZZLE, document).result(60)
        with pytest.raises(ChatError):  # this server has no such model
            remote.ask(Mode.DIALOG, document).result(60)
        remote.close()


def test_the_system_message_is_the_prompt_of_its_version(document):
    system, user = messages(prompt(), document)
    assert system["content"] == prompt()
    assert '"version":3' in user["content"]
    assert len(user["content"]) < 3_000


def test_the_local_server_answers_nonsense_without_a_plan():
    from questloop.serving.protocol import ChatRequest
    from questloop.serving.server import default_handlers

    handler = default_handlers()["embedded-planner-puzzle"]
    for text in ("", "[]", '{"view": {}}', '{"view": {"map": [], "hero": 3}}'):
        asked = ChatRequest(model="m", messages=[{"role": "user", "content": text}])
        assert "macros" not in handler(asked)


def test_every_request_begins_with_the_games_guide(document):
    asked = []

    def look(request):
        asked.append(request.system)
        return {"macros": [{"do": "ATTACK"}]}

    with LocalServer({"embedded-planner-puzzle": look}) as server:
        for guide in ("", PROFILE.guide.text):
            remote = RemotePlanner(LLMSettings(), server.url, guide)
            remote.ask(Mode.PUZZLE, document).result(60)
            remote.close()
    without, guided = asked
    assert guided.startswith("# Mossgrove: the guide")
    assert guided.endswith(without)
