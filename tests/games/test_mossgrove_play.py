"""Mossgrove's behaviour, driven by buttons and read from its mapped memory."""

import hashlib
import io

import pytest

from .conftest import TITLE

BUSY_MODE = 0xC3F0
ELDER_SAYS, WINTER, SUMMER = 0x0400, 3, 1
BELL, SWORD, SHIELD = 7, 5, 1


def give(console, treasure: int) -> None:
    address = 0xC692 + (treasure >> 3)
    console.write(address, console.read(address) | 1 << (treasure & 7))


def give_bell(console) -> None:
    give(console, BELL)
    console.write(0xC680, BELL)
    console.write(0xC6B0, 0x89)


def give_sword(console, level: int = 1) -> None:
    give(console, SWORD)
    console.write(0xC681, SWORD)
    console.write(0xC6AC, level)


def test_power_on_leads_to_control_with_a_new_file(console):
    console.until(console.control)
    assert (console.group, console.room) == (0, 0x21)
    assert (console.health, console.max_health) == (12, 12)


def test_start_skips_the_title(console):
    console.until(lambda: console.cutscene == TITLE)
    console.press("start")
    console.until(console.control, frames=120)


def test_walking_moves_and_a_room_scrolls_in(console):
    console.begin()
    x = console.x
    console.run(16, "right")
    console.run(2)
    assert x + 20 <= console.x <= x + 27
    console.pyboy.button_press("right")
    console.until(lambda: console.room == 0x22)
    console.pyboy.button_release("right")
    assert console.scroll != 1
    console.until(console.control)
    assert console.x < 24


def test_walls_stop_the_hero(console):
    console.begin()
    console.go_to(0, 0x21, 40, 24)
    console.run(120, "left")
    assert 16 + 5 <= console.x < 24
    assert console.read(0xCC80) == 3  # pushing to the left


def test_the_elder_speaks_and_either_button_reads_on(console):
    console.begin()
    console.go_to(0, 0x21, 56, 84)
    console.run(4, "right")
    console.press("a")
    console.until(lambda: console.text)
    assert console.read(0xCBA3) == ELDER_SAYS >> 8
    assert not console.read(0xC6CE) & 4
    for button in ("a", "b") * 12:
        console.press(button)
        console.run(12)
    console.until(console.control)
    assert console.read(0xC6CE) & 4  # the request: global flag 22
    console.run(30)
    assert console.control()


@pytest.mark.parametrize(("moves", "bought"), [([], True), (["right"], False), (["right", "left"], True)])
def test_the_shop_asks_and_takes_amber(console, moves, bought):
    console.begin()
    console.write(0xC6A5, 0x35)
    console.go_to(3, 0x01, 88, 56)
    assert console.read(0xCCEA) == 2
    console.run(6, "up")
    console.press("a")
    console.until(lambda: console.text)
    for _ in range(20):
        if console.choosing:
            break
        console.press("a")
        console.run(8)
    assert (console.choosing, console.choice) == (1, 0)
    for move in moves:
        console.press(move)
    assert console.choice == (0 if bought else 1)
    console.press("a")
    for _ in range(8):
        console.press("b")
        console.run(20)
    console.until(console.control)
    assert console.read(0xC692) >> SHIELD & 1 == bought
    assert console.read(0xC6A5) == (0x05 if bought else 0x35)


def test_the_shop_gives_nothing_to_the_poor(console):
    console.begin()
    console.go_to(3, 0x01, 88, 56)
    console.run(6, "up")
    for _ in range(40):
        console.press("a")
        console.run(8)
    assert not console.read(0xC692) >> SHIELD & 1
    assert (console.read(0xC6A5), console.read(0xC6A6)) == (0, 0)


def test_menu_opens_equips_and_closes(console):
    console.begin()
    give_sword(console)
    give_bell(console)
    console.press("start")
    console.until(lambda: console.menu == 1)
    console.run(30)
    console.press("start")
    console.until(console.control)
    console.run(30)
    console.press("start")
    assert console.menu == 0  # it rests a little
    console.run(90)
    console.press("start")
    console.run(30)
    assert console.menu == 1
    console.press("right")
    console.press("a")
    console.until(console.control)
    assert (console.read(0xC681), console.read(0xC680)) == (BELL, SWORD)  # swapped


def test_winter_freezes_the_pond_and_the_bell_is_mute_on_ice(console):
    console.begin()
    give_bell(console)
    console.go_to(0, 0x10, 72, 88)
    water = console.read(0xCE34)
    console.press("b")
    console.until(lambda: console.season == WINTER)
    console.until(console.control)
    assert (water, console.read(0xCE34)) == (0x0F, 0)
    console.run(40, "up")
    assert console.tile_type == 0x0F
    console.press("b")
    console.run(60)
    assert console.season == WINTER
    console.run(60, "down")
    console.press("b")
    console.until(lambda: console.season == 0)
    console.until(console.control)
    assert console.read(0xCE34) == 0x0F


def test_summer_grows_the_vine_and_autumn_fills_the_holes(console):
    console.begin()
    give_bell(console)
    console.write(0xC6B0, 0x8F)
    console.go_to(0, 0x12, 40, 24)
    assert console.read(0xCE02) == 0x0F
    console.press("b")
    console.until(lambda: console.season == SUMMER)
    console.until(console.control)
    assert console.read(0xCE02) == 0
    console.run(30)
    console.press("b")
    console.until(lambda: console.season == 2)
    console.until(console.control)
    console.go_to(0, 0x31, 72, 88)
    health = console.health
    console.run(90, "down")
    assert (console.state, console.health) == (1, health)
    assert console.y > 90  # he stands on the leaves


def test_the_vine_leads_up_and_in_no_other_season_down(console):
    console.begin()
    give_bell(console)
    console.write(0xC6B0, 0x8F)
    console.write(0xCC4E, SUMMER)
    console.go_to(0, 0x12, 40, 40)
    console.until(lambda: console.room == 0x02, button="up")
    console.until(console.control)
    console.run(30, "up")
    console.press("b")
    console.until(lambda: console.season != SUMMER)
    console.until(console.control)
    console.run(60, "down")
    assert console.room == 0x02  # the cliff is bare again


def test_a_pit_sends_back_and_costs_half_a_heart(console):
    console.begin()
    console.go_to(5, 0x12, 104, 72)
    health, y, x = console.health, console.read(0xCC3D), console.read(0xCC3E)
    console.until(lambda: console.state == 2, button="up")
    assert console.tile_type == 1
    console.until(lambda: console.state == 1)
    assert (console.y, console.x, console.health) == (y, x, health - 2)


def test_a_ledge_leads_down_only(console):
    console.begin()
    console.go_to(0, 0x32, 24, 40)
    console.until(lambda: console.state == 0x12, button="down")
    assert console.read(0xCC77) == 1
    console.until(console.control)
    console.until(lambda: console.state == 1)
    below = console.y
    assert below > 48
    console.run(90, "up")
    assert console.y > 48


def test_death_counts_and_leads_back_with_all_hearts(console):
    console.begin()
    console.write(0xC6A2, 0)
    console.until(lambda: console.read(0xCC34))
    console.until(lambda: console.read(0xCC35))
    console.until(console.control)
    assert (console.group, console.room, console.y, console.x) == (0, 0x21, 72, 72)
    assert console.health == console.max_health
    assert (console.read(0xC61E), console.read(0xCC34), console.read(0xCC35)) == (1, 0, 0)


def test_a_spoiled_stone_stands_again_on_reentry(console):
    console.begin()
    console.go_to(5, 0x30, 88, 72)
    assert console.read(0xCF35) == console.read(0xCF54)
    stone, floor = console.read(0xCF54), console.read(0xCF44)
    console.go_to(5, 0x30, 104, 72)
    console.until(lambda: console.read(0xCF44) == stone, button="up")
    assert console.read(0xCF54) == floor
    assert console.read(0xCCC0) == 0x80
    console.go_to(5, 0x30, 104, 72)
    assert console.read(0xCF54) == stone


def test_the_blade_cuts_bushes_and_the_better_one_thorns(console):
    console.begin()
    give_sword(console)
    console.go_to(0, 0x03, 40, 24)
    console.run(3, "right")
    console.press("a")
    console.run(16)
    assert console.read(0xCE22) == 0
    console.go_to(5, 0x22, 24, 72)
    console.run(3, "up")
    console.press("a")
    console.run(16)
    assert console.read(0xCE04) == 0x0F
    console.write(0xC6AC, 2)
    console.press("a")
    console.run(16)
    assert console.read(0xCE04) == 0
    assert console.read(0xCA22) & 0x40


def test_four_buttons_return_to_the_title(console):
    console.begin()
    console.run(10, "a", "b", "select", "start")
    console.until(lambda: console.cutscene == TITLE)
    assert console.game_state == 0
    console.until(console.control)


def test_busy_mode_keeps_sixty_frames_a_second(console):
    console.begin()
    console.go_to(0, 0x22, 72, 72)
    for busy in (0, 1):
        console.write(BUSY_MODE, busy)
        before = console.read(0xC622)
        console.run(60)
        assert (console.read(0xC622) - before) & 0xFF == 60


def test_the_same_inputs_give_the_same_memory(console):
    power_on = io.BytesIO()
    console.pyboy.save_state(power_on)
    digests = set()
    for _ in range(2):
        power_on.seek(0)
        console.pyboy.load_state(power_on)
        console.begin()
        for button in ("right", "a", "up", "b", "left", "down") * 20:
            console.run(9, button)
        memory = bytes(console.pyboy.memory[0xC000:0xD000]) + bytes(console.pyboy.memory[1, 0xD000:0xDFFF])
        digests.add(hashlib.sha256(memory).hexdigest())
    assert len(digests) == 1
