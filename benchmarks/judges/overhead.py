"""What the client adds to the servers' time: a pass over N segments against a server of fixed latency.

    python benchmarks/judges/overhead.py --segments 1000 --latency 1 --concurrency 8

The segments are played by a random agent on the bundled game and read from a folder store. The ideal is the
time that the server alone would need at the same concurrency: each judge asks one segment first (to fill the
prefix cache) and then keeps every slot busy. Prints JSON and writes it to `overhead.json` beside this file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import resource
import tempfile
import time
from multiprocessing.queues import Queue
from pathlib import Path

import numpy as np

from questloop.episodes.epoch_export import EpochExport
from questloop.episodes.exporter import Exporter
from questloop.episodes.files import Recording
from questloop.episodes.reader import SegmentReader
from questloop.episodes.recorder import Recorder
from questloop.episodes.trace import Trace
from questloop.game.batch import GameBatch
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.judges.evaluate import JudgePass
from questloop.judges.rubric import JUDGES
from questloop.llm.client import ChatClient
from questloop.pipeline.judging import segment_infos
from questloop.settings import JudgeSettings, LLMSettings
from questloop.storage import keys
from questloop.storage.commit import commit_stage, read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import Store, open_store

SLOTS = 16
CHUNK = 300


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--segments", type=int, default=1000)
    options.add_argument("--latency", type=float, default=1.0, help="seconds a request")
    options.add_argument("--concurrency", type=int, default=8)
    options.add_argument("--store", help="folder that keeps the played segments for the next time")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(chosen.store or folder)
        if read_commit(store, 0, Stage.ROLLOUTS) is None:
            play(store, chosen.segments)
        store.delete(entry.key for entry in store.list(keys.judgements_prefix(0)))
        figures = measure(store, chosen.segments, chosen.latency, chosen.concurrency)
    text = json.dumps(figures, indent=1)
    print(text)
    Path(__file__).with_name("overhead.json").write_text(text + "\n")


def measure(store: Store, segments: int, latency_s: float, concurrency: int) -> dict[str, float]:
    """Judge `segments` segments and compare the time with the server's own."""
    urls: Queue[str] = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(latency_s, urls), daemon=True)
    server.start()
    settings = LLMSettings(llm_endpoint=urls.get(timeout=30), llm_concurrency=concurrency)
    reader = SegmentReader(store)
    infos = segment_infos(reader, 0)[:segments]

    async def judge() -> int:
        async with ChatClient(settings) as client:
            budget = JudgeSettings(judge_budget="all")
            await JudgePass(store, 0, client, budget, announce=lambda _: None).run(infos, reader.load)
            return client.stats.requests

    cpu = time.process_time()
    began = time.perf_counter()
    requests = asyncio.run(judge())
    wall_s = time.perf_counter() - began
    server.terminate()
    ideal_s = len(JUDGES) * (1 + math.ceil((len(infos) - 1) / concurrency)) * latency_s
    return {
        "segments": len(infos),
        "requests": requests,
        "latency_s": latency_s,
        "concurrency": concurrency,
        "ideal_s": round(ideal_s, 2),
        "wall_s": round(wall_s, 2),
        "overhead": round(wall_s / ideal_s - 1, 4),
        "client_cpu_s": round(time.process_time() - cpu, 2),
        "client_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "load_average_1min": round(os.getloadavg()[0], 2),
    }


def serve(latency_s: float, urls: Queue[str]) -> None:
    """Answer every request after `latency_s`, n samples that differ."""

    async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
                body = json.loads(await reader.readexactly(length))
                await asyncio.sleep(latency_s)
                reply = json.dumps(answer(body)).encode()
                kind = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                writer.write(kind + b"Content-Length: %d\r\n\r\n" % len(reply) + reply)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(exchange, "127.0.0.1", 0, limit=1 << 22)
        urls.put(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        await server.serve_forever()

    asyncio.run(run())


def answer(body: dict) -> dict:
    criteria = ("progress", "dialog", "efficiency", "puzzle", "novelty", "overall")
    texts = [json.dumps(dict.fromkeys(criteria, 0.1 * (index + 1))) for index in range(body.get("n", 1))]
    choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in texts]
    return {
        "model": body["model"],
        "choices": choices,
        "usage": {"prompt_tokens": 1000, "completion_tokens": 60},
    }


def play(store: Store, segments: int) -> None:
    """Epoch 0 with at least `segments` segments, by a seeded random agent."""
    rom = Rom.load(None)
    profile = profile_for(rom)
    rng = np.random.default_rng(0)
    game = GameBatch(rom, profile.layout, SLOTS, 4)
    names = tuple(milestone.key for milestone in profile.milestones)
    recorder = Recorder(SLOTS, run="bench", epoch=0, fence=1, reward_names=("room",), milestone_names=names)
    exporter = Exporter(store, Recording(profile, rom, frame_skip=4, observation_version=1))
    chunks = math.ceil(segments / SLOTS)
    export = EpochExport(store, recorder, exporter, budget="all", epoch_steps=chunks * CHUNK * SLOTS, seed=0)
    for chunk in range(chunks):
        taps = np.zeros((CHUNK, SLOTS, profile.layout.size), np.uint8)
        action = np.repeat(rng.integers(0, 7, (CHUNK // 12, SLOTS), np.uint8), 12, axis=0)
        frames = {}
        for step in range(CHUNK):
            render = np.full(SLOTS, step % 10 == 0)
            taps[step] = game.step(action[step], render)
            frames |= {(step, slot): game.screen(slot) for slot in np.flatnonzero(render).tolist()}
        export.add(
            Trace(
                episode_step=np.stack([np.arange(CHUNK) + chunk * CHUNK] * SLOTS, axis=1),
                action=action,
                mode=np.zeros((CHUNK, SLOTS), np.uint8),
                boundary=np.zeros((CHUNK, SLOTS), np.uint8),
                taps=taps,
                obs=np.zeros((CHUNK, SLOTS, 128), np.float32),
                reward_parts=np.zeros((CHUNK, SLOTS, 1), np.float32),
                milestones=profile.detector(taps.reshape(-1, taps.shape[-1])).reshape(CHUNK, SLOTS),
                frames=frames,
                starts={},
            )
        )
    game.close()
    commit_stage(store, 0, Stage.ROLLOUTS, 1, export.close().objects)


if __name__ == "__main__":
    main()
