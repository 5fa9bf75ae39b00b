"""A made-up run of many epochs and segments, from the documents of a small one; all of it is fake."""

import json

from questloop.episodes.segment import STATES, ManifestFile
from questloop.report.book import RunBook
from questloop.report.curves import CURVES
from questloop.storage import keys
from questloop.storage.commit import commit_stage, to_json
from questloop.storage.keys import EpisodeId, SegmentId, Stage
from questloop.storage.store import folder_path, sha256_hex

STEPS = 100_000
UPDATES = 25
ROOMS = 60
PICTURED = 60


def enlarge(store, epochs, segments, pictured=PICTURED):
    """Add epochs 1 to `epochs` of `segments` judged segments each; the newest few alone have pictures.

    Every epoch is committed by all three stages, with full curves, rooms, tiles and cells of a large game.
    """
    book = RunBook(store)
    source = book.manifest(book.segments(0)[0])
    line = book.scores(0)[source.segment_id]
    record = book.episode(source.episode_id)
    states, own = unpictured_states(store, source)
    infos = {stage: book.info(0, stage) for stage in Stage}
    for epoch in range(1, epochs + 1):
        objects, lines = [], []
        for number in range(segments):
            episode = EpisodeId("r1", epoch, number // 100, number % 100)
            name = str(SegmentId(episode, 0, 1))
            changed = {"segment_id": name, "episode_id": str(episode), "epoch": epoch, "fence": 1}
            if epoch == epochs and number >= segments - pictured:
                for file in source.files:
                    data = store.get(keys.segment_file(source.segment_id, file.name))
                    store.put(keys.segment_file(name, file.name), data)
            else:
                changed |= {"pngs": 0, "files": (states,)}
                place = folder_path(store.url) / keys.segment_prefix(name)
                place.mkdir(parents=True, exist_ok=True)
                (place / STATES).hardlink_to(own)
            objects.append(store.put(keys.manifest(name), to_json(source.model_copy(update=changed))))
            scored = {"segment_id": name, "episode_id": str(episode), "epoch": epoch}
            score = (number * 37 + epoch) % segments / segments
            lines.append(line.model_copy(update=scored | {"weighted": score}).model_dump_json())
            if epoch == epochs:
                changed = {"segment_id": name, "epoch": epoch, "exported": True}
                entry = record.segments[0].model_copy(update=changed)
                known = {"id": str(episode), "epochs": (epoch,), "segments": (entry,), "takeovers": ()}
                key = keys.episode_record(str(episode))
                store.put(key, to_json(record.model_copy(update=known)))
        commit_stage(store, epoch, Stage.ROLLOUTS, 1, objects, infos[Stage.ROLLOUTS] | played(epoch))
        scores = store.put(keys.scores(epoch), "\n".join(lines).encode())
        commit_stage(store, epoch, Stage.EVALUATE, 1, [scores], infos[Stage.EVALUATE])
        commit_stage(store, epoch, Stage.REWARD_MODEL, 1, [], infos[Stage.REWARD_MODEL])


def unpictured_states(store, source):
    """The states of a segment as if nothing had been drawn: the file's entry, and where to link it from."""
    lines = [
        json.loads(line) for line in store.get(keys.segment_file(source.segment_id, STATES)).splitlines()
    ]
    data = b"".join(json.dumps(line | {"png": None}).encode() + b"\n" for line in lines)
    place = folder_path(store.url) / "fake-states.jsonl"
    place.write_bytes(data)
    return ManifestFile(name=STATES, sha256=sha256_hex(data), size=len(data)), place


def played(epoch):
    """What an epoch's rollouts are made to report."""
    start = epoch * STEPS
    names = [curve.key for curve in CURVES if curve.key != "milestones"]
    curve = [
        {"step": start + (at + 1) * STEPS // UPDATES} | dict.fromkeys(names, 0.123456 * (at + 1))
        for at in range(UPDATES)
    ]
    rooms = [f"0:{number:02x}" for number in range(ROOMS)]
    return {
        "epoch": epoch,
        "step_start": start,
        "step_end": start + STEPS,
        "curve": curve,
        "room_visits": dict.fromkeys(rooms, 1000),
        "tiles": {room: " ".join(f"{tile} 12" for tile in range(80)) for room in rooms},
        "milestone_steps": {"met_elder": start + 1},
        "runners": 2,
        "slots": 64,
        "runners_lost": 0,
    }
