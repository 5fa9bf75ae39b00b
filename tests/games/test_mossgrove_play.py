"""Mossgrove's behaviour, driven by buttons and read from its mapped memory."""


def test_power_on_leads_to_control_with_a_new_file(console):
    console.until(console.control)
    assert (console.group, console.room) == (0, 0x21)
    assert (console.health, console.max_health) == (12, 12)


def test_walking_moves_and_a_room_scrolls_in(console):
    console.until(console.control)
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
