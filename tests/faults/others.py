"""Other people's servers and file systems: judges that answer in every wrong way, a store that vanishes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.serving.hostile import BAD_CONTENT, DIALECTS, ENDS, OUTAGES, PASSING, REFUSALS, Act, hostile

from questloop.exit_codes import ExitCode
from questloop.storage.store import open_store

from .pipeline import Fake, Tally, finished, forked, unfinished
from .stores import impatient

_ASKED: dict[str, Any] = {
    "llm_backend": "endpoint",
    "llm_timeout_s": 3,
    "llm_concurrency": 2,
    "llm_model_state": "state",
    "llm_model_puzzle": "puzzle",
    "llm_model_vision": "vision",
}


def faults_of_others(fake: Fake, reference: Path, rng: random.Random, most: int) -> list[Tally]:
    """Every act of the hostile judge server, and a folder that goes away under a run."""
    plain = fake.folder / "others"
    with _server(fake, {}, frozenset()) as endpoint:
        code, said = fake.run(str(plain), **_ASKED, llm_endpoint=endpoint)
    assert code == 0, said
    return [
        _ridden_out(fake, plain, rng, most),
        _left_open(fake, plain, rng, most),
        _vanished(fake, reference, rng, min(most, 6)),
    ]


def _ridden_out(fake: Fake, plain: Path, rng: random.Random, most: int) -> Tally:
    """What passes, and what a server does not take of a request, changes nothing."""
    tally = Tally("judges: a passing failure, or less than is asked for, is what the server knows")
    there = open_store(str(plain))
    acts = sorted(PASSING - {Act.GOOD, Act.STORM, Act.BUSY})
    cases = [(act, frozenset()) for act in acts] + [(Act.GOOD, frozenset({name})) for name in DIALECTS]
    for number, (act, refuses) in enumerate(rng.sample(cases, min(most, len(cases)))):
        url = str(fake.folder / f"ridden-out-{number}")
        tally.injected += 1
        with _server(fake, dict.fromkeys(range(0, 1000, 7), act), refuses) as endpoint:
            code, said = fake.run(url, **_ASKED, llm_endpoint=endpoint)
        if "seed" in refuses:  # other votes are right then
            wrong = f"ended with {code}: {said}" if code else unfinished(open_store(url))
        else:
            wrong = f"ended with {code}: {said}" if code else finished(open_store(url), there)
        tally.check(not wrong, f"{act} {set(refuses)}: {wrong}")
    return tally


def _left_open(fake: Fake, plain: Path, rng: random.Random, most: int) -> Tally:
    """What does not pass ends the run with one line, and a healthy server finishes it as if nothing was."""
    tally = Tally("judges: bad answers of every kind until the next start")
    there = open_store(str(plain))
    acts = sorted((OUTAGES | REFUSALS | ENDS | BAD_CONTENT) - {Act.HANG, Act.DRIP})
    for act in rng.sample(acts, min(most, len(acts))):
        url = str(fake.folder / f"left-open-{act}")
        first = rng.randrange(0, 12)
        with _server(fake, dict.fromkeys(range(first, 100_000), act), frozenset()) as endpoint:
            code, said = fake.run(url, impatient, **_ASKED, llm_endpoint=endpoint)
        tally.injected += 1
        tally.check(code == ExitCode.UNAVAILABLE, f"{act}: ended with {code}: {said}")
        wrong = unfinished(open_store(url))
        tally.check(not wrong, f"{act}: {wrong}")
        with _server(fake, {}, frozenset()) as endpoint:
            code, said = fake.run(url, **_ASKED, llm_endpoint=endpoint)
        wrong = f"ended with {code}: {said}" if code else finished(open_store(url), there)
        tally.check(not wrong, f"{act}: {wrong}")
    return tally


def _vanished(fake: Fake, reference: Path, rng: random.Random, most: int) -> Tally:
    """A store's folder is moved away under a run: it ends, makes none anew, and goes on when it is back."""
    tally = Tally("a store that vanishes under a run")
    there = open_store(str(reference))
    for number in range(most):
        root = fake.folder / f"vanishing-{number}"
        process = fake.start(str(root))
        deadline = time.monotonic() + 60
        while not (root / "zelda-models").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(rng.uniform(0.0, 1.0))
        away = root.with_name(f"{root.name}-away")
        shutil.move(root, away)
        code = process.wait()
        tally.injected += 1
        if code:
            tally.check(not root.exists(), f"{root.name}: it was made again")
            tally.check("error: " in process.said(), f"ended with {code}: {process.said()}")
        shutil.rmtree(root, ignore_errors=True)
        shutil.move(away, root)
        code, said = fake.run(str(root))
        wrong = f"ended with {code}: {said}" if code else finished(open_store(str(root)), there)
        tally.check(not wrong, f"{root.name}: {wrong}")
    return tally


@contextmanager
def _server(fake: Fake, acts: dict[int, Act], refuses: frozenset[str]) -> Iterator[str]:
    """The hostile server in a process of its own; `acts` by the number of the prompt, in order of arrival."""
    address = fake.folder / f"hostile-{time.monotonic_ns()}"

    async def run() -> None:
        async with hostile(_script(acts), _answer, refuses=refuses) as server:
            address.with_suffix(".new").write_text(server.url)
            address.with_suffix(".new").rename(address)
            await asyncio.sleep(3600)

    with forked(lambda: asyncio.run(run())):
        deadline = time.monotonic() + 60
        while not address.exists():
            assert time.monotonic() < deadline, "the judges' server did not start"
            time.sleep(0.01)
        yield address.read_text()


def _script(acts: dict[int, Act]) -> Callable[[dict[str, Any], int, int], Act]:
    seen: dict[str, int] = {}

    def act(body: dict[str, Any], index: int, attempt: int) -> Act:
        prompt = json.dumps([body["model"], body["messages"]])
        return acts.get(seen.setdefault(prompt, len(seen)), Act.GOOD)

    return act


def _answer(body: dict[str, Any], index: int) -> dict[str, Any]:
    """The same to the same prompt and seed, with every field that any judge is asked for."""
    text = json.dumps([body["model"], body["messages"], body.get("seed", 1) + index])
    score = hashlib.sha256(text.encode()).digest()[0] / 255
    fields = ("progress", "dialog", "efficiency", "puzzle", "novelty", "overall")
    return {"reason": "r", **dict.fromkeys(fields, round(score, 3))}
