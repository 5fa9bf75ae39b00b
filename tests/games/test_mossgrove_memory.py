"""Every mapped byte that Mossgrove's play has, as the walkthrough leaves it: the original's encoding."""

import numpy as np
import pytest

pytestmark = pytest.mark.slow

PLAYING = {"has_control": True}

# address, what the byte means, values that must occur, values that may (None: any)
BYTES = [
    (0xC2EE, "game state: start, loading, in play", {0, 1, 2}, {0, 1, 2}),
    (0xC2EF, "cutscene: loading, play, fade, ending, title", {0, 1, 3, 0x0A, 0x0D}, None),
    (0xC481, "buttons held", {0x10, 0x20, 0x40, 0x80}, None),
    (0xC4AB, "palette fades", {0, 1, 2}, {0, 1, 2}),
    (0xC662 + 1, "floors seen of dungeon 1", {0, 1}, {0, 1}),
    (0xC662 + 2, "floors seen of dungeon 2", {0, 1}, {0, 1}),
    (0xC66E + 1, "small keys of dungeon 1", {0, 1}, {0, 1}),
    (0xC66E + 2, "small keys of dungeon 2", {0, 1}, {0, 1}),
    (0xC67A, "great key: bit of the dungeon", {0, 0b100}, {0, 0b100}),
    (0xC680, "B: nothing, then the bell", {0, 7}, {0, 7}),
    (0xC681, "A: nothing, then the sword", {0, 5}, {0, 5}),
    (0xC6A2, "health in quarter hearts", {0, 12, 16}, set(range(17))),
    (0xC6A3, "maximum health", {0, 12, 16}, {0, 12, 16}),
    (0xC6A9, "shield level", {0, 1}, {0, 1}),
    (0xC6AB, "bomb capacity, BCD", {0, 0x10}, {0, 0x10}),
    (0xC6AC, "sword level", {0, 1, 2}, {0, 1, 2}),
    (0xC6B0, "seasons: bell, spring and winter", {0, 0x89}, {0, 0x89}),
    (0xC6BB, "essences", {0, 1, 3}, {0, 1, 3}),
    (0xCBA0, "text box", {0, 1}, {0, 1}),
    (0xCBA1, "text mode: choosing", {0, 1}, {0, 1}),
    (0xCBA3, "text index, high byte with its base", {0, 4}, {0, 4}),
    (0xCC02, "menu disabled", {0, 1}, {0, 1}),
    (0xCC47, "direction of the d-pad, FF at rest", {0x00, 0x08, 0x10, 0x18, 0xFF}, {0, 8, 16, 24, 0xFF}),
    (0xCC48, "the hero's object", {0, 0xD0}, {0, 0xD0}),
    (0xCC49, "group", {0, 3, 4, 5}, {0, 3, 4, 5}),
    (0xCC4A, "no large room", {0}, {0}),
    (0xCC4E, "season", {0, 3}, {0, 3}),
    (0xCC4F, "collision mode", {0, 3, 4}, {0, 3, 4}),
    (0xCC50, "outdoors, indoors, dungeon", {0x01, 0x04, 0x08}, {0, 1, 4, 8}),
    (0xCC55, "dungeon", {1, 2, 0xFF}, {0, 1, 2, 0xFF}),
    (0xCC58, "room: chest, key and chest, boss", {0, 0x20, 0x30, 0x40}, {0, 0x20, 0x30, 0x40}),
    (0xCC67, "warp pending", {0, 1}, {0, 1}),
    (0xCC80, "pushing", {0, 3, 0xFF}, {0, 1, 2, 3, 0xFF}),
    (0xCCA4, "objects frozen", {0, 0x81}, {0, 0x81}),
    (0xCCA9, "lanterns lit", {0, 1, 2}, {0, 1, 2}),
    (0xCCB6, "tile: plain, grass, ice", {0, 5, 0x0F}, None),
    (0xCCB9, "on a chest", {0, 1}, {0, 1}),
    (0xCCBA, "floor button", {0, 1}, {0, 1}),
    (0xCCC0, "block pushed: angle and 80", {0x80, 0x98}, {0, 0x80, 0x88, 0x90, 0x98}),
    (0xCCEA, "in the shop", {0, 2}, {0, 2}),
    (0xCD00, "scroll mode", {1}, {0, 1, 6, 8}),
    (0xCD02, "direction of the last scroll", {0, 1, 2, 3}, {0, 1, 2, 3}),
    (0xD004, "hero: normal, item, warp", {1, 4, 0x0A}, None),
    (0xD008, "hero's direction", {0, 1, 2, 3}, {0, 1, 2, 3}),
    (0xD140, "a block slides", {0, 1}, {0, 1}),
]


@pytest.mark.parametrize(("address", "meaning", "must", "may"), BYTES, ids=[f"{b[0]:04X}" for b in BYTES])
def test_byte_takes_the_values_of_its_meaning(trace, address, meaning, must, may):
    seen = trace.seen(address)
    assert must <= seen, meaning
    assert may is None or seen <= may, meaning


def test_flags_of_treasures_rooms_and_story(trace):
    last = {a: int(trace.at(a)[-1]) for a in range(0xC600, 0xCB00)}
    for treasure in (0x01, 0x05, 0x07, 0x28, 0x2A, 0x30, 0x31, 0x40):
        assert last[0xC692 + (treasure >> 3)] >> (treasure & 7) & 1, f"treasure {treasure:02X}"
    for flag in (0x0A, 0x21, 0x22, 0x28):
        assert last[0xC6CA + (flag >> 3)] >> (flag & 7) & 1, f"global flag {flag:02X}"
    assert last[0xC700 + 0x21] == 0x10  # visited
    assert last[0xC700 + 0x20] == 0x30  # and its item taken
    assert last[0xC700 + 0x33] == 0  # never seen
    assert last[0xC800 + 0x01] == 0x10  # indoors
    assert last[0xC900 + 0x21] == 0x11  # the grotto: key door up
    assert last[0xC900 + 0x11] & 0x04  # its other side
    assert last[0xC900 + 0x22] == 0x30  # chest opened
    assert last[0xCA00 + 0x31] == 0x11
    assert last[0xCA00 + 0x21] == 0x19 | last[0xCA00 + 0x21] & 0x04  # the vault: great door up, key door left
    assert last[0xCA00 + 0x20] & 0x92 == 0x92  # miniboss beaten, key door right
    assert last[0xCA00 + 0x11] & 0xB0 == 0xB0  # boss beaten, heart container taken
    assert last[0xCA00 + 0x01] == 0x30  # essence


def test_counters_are_decimal_where_the_original_is(trace):
    low, high = trace.at(0xC6A5), trace.at(0xC6A6)
    assert ((low & 15) <= 9).all()
    assert ((low >> 4) <= 9).all()
    assert (high <= 9).all()
    carried = (high.astype(int) * 100) + (low >> 4) * 10 + (low & 15)
    assert carried.max() >= 30
    assert (np.diff(carried) == -30).sum() == 1  # the shield's price
    total = trace.at(0xC628).astype(int) * 100 + (trace.at(0xC627) >> 4) * 10 + (trace.at(0xC627) & 15)
    assert (np.diff(total) >= 0).all()
    assert total[-1] >= carried.max()
    kills = trace.at(0xC620).astype(int) | trace.at(0xC621).astype(int) << 8
    assert set(np.diff(kills).tolist()) <= {0, 1}
    assert kills[-1] > 15
    playtime = sum(trace.at(0xC622 + i).astype(int) << 8 * i for i in range(4))
    assert (playtime & 0xFF == trace.at(0xCC00)).all()
    assert (np.diff(playtime) >= 0).all()
    assert np.median(np.diff(playtime)) == 4


def test_health_falls_by_bites_and_never_passes_its_maximum(trace):
    health, most = trace.at(0xC6A2).astype(int), trace.at(0xC6A3).astype(int)
    assert (health <= most).all()
    falls = -np.diff(health)[np.diff(health) < 0]
    assert set(falls.tolist()) == {2}
    hurt = np.flatnonzero(np.diff(health) < 0) + 1
    assert (trace.at(0xD02B)[hurt] > 0).all()  # invincible after it
    assert trace.at(0xD02D).max() > 0  # knocked back


def test_room_tables_match_the_room(trace):
    playing = trace.when(has_control=True)
    collisions, layout = trace.region(0xCE00, 0xB0), trace.region(0xCF00, 0xB0)
    assert set(np.unique(collisions[playing])) <= {0, 0x0F}
    inside = [row << 4 | column for row in range(8) for column in range(10)]
    outside = sorted(set(range(0xB0)) - set(inside))
    assert (collisions[playing][:, outside] == 0x0F).all()
    position = trace.at(0xCCB3)[playing]
    index = trace.at(0xCCB4)[playing]
    under = layout[playing][np.arange(playing.sum()), position]
    assert (under == index).mean() > 0.97  # a tile may change beneath in the frame of the sample
    assert (position < 0x80).all()
    assert ((position & 15) < 10).all()


def test_position_stays_in_the_room_and_on_open_ground(trace):
    playing = trace.when(has_control=True)
    y, x = trace.at(0xD00B)[playing].astype(int), trace.at(0xD00D)[playing].astype(int)
    assert (y < 128).all()
    assert (x < 160).all()
    collisions = trace.region(0xCE00, 0xB0)[playing]
    feet = np.minimum(y + 4, 127) >> 4 << 4 | x >> 4
    assert (collisions[np.arange(len(feet)), feet] == 0).mean() > 0.99


def test_enemies_are_counted_and_lie_in_their_pages(trace):
    enabled = np.stack([trace.at(0xD080 + 0x100 * n) for n in range(6)], axis=1)
    counted = trace.at(0xCC30)
    assert ((enabled != 0).sum(axis=1) == counted).mean() > 0.99
    assert counted.max() >= 2
    ids = {trace.at(0xD081 + 0x100 * n)[k] for n in range(6) for k in np.flatnonzero(enabled[:, n])}
    assert ids == {1, 2, 3, 4, 5, 6}
    first = enabled[:, 0] != 0
    assert (trace.at(0xD0A9)[first] <= 24).all()
    killed = trace.region(0xCC1F, 17)
    assert (killed[:, 16] <= 14).all()  # place of the next pair
    assert killed[:, 1:16:2].any()


def test_respawn_places_and_minimap(trace):
    respawn = trace.region(0xC62B, 6)
    assert {(0, 0x21), (4, 0x21), (5, 0x31)} <= {tuple(row[:2].tolist()) for row in respawn}
    playing = trace.when(has_control=True)
    group, room = trace.at(0xCC49)[playing], trace.at(0xCC4C)[playing]
    assert (trace.at(0xCC4B)[playing] == room).all()
    outside_houses = group != 3
    assert (trace.at(0xC63A)[playing][outside_houses] == group[outside_houses]).all()
    assert (trace.at(0xC63B)[playing][outside_houses] == room[outside_houses]).all()
    in_dungeon = group >= 4
    cell = (room >> 4 << 3) | (room & 7)
    assert (trace.at(0xCC56)[playing][in_dungeon] == cell[in_dungeon]).all()


def test_warps_name_their_goal(trace):
    pending = np.flatnonzero(trace.at(0xCC67))
    goals = {(int(trace.at(0xCC63)[i]), int(trace.at(0xCC64)[i]), int(trace.at(0xCC66)[i])) for i in pending}
    assert {(4, 0x21, 0x64), (5, 0x31, 0x64), (3, 0x00, 0x64), (3, 0x01, 0x64)} <= goals


def test_nothing_of_rings_is_claimed(trace):
    assert (trace.region(0xC5C0, 64)[-1] == 0xFF).all()
    assert (trace.region(0xC6C0, 6)[-1] == 0xFF).all()
    assert not trace.region(0xC616, 8)[-1].any()
