/* Everything that takes control away: title, file, name, opening, text, menu, scrolling and warps. */
#include "scene.h"
#include "hero.h"
#include "room.h"
#include "screen.h"

static u8 wait, to_room, to_y, to_x;
static const u8 step[4] = {0xF0, 0x01, 0x10, 0xFF};

static void until(u8 button) {
    do frame(); while (!(keys_new & button));
}

static void new_file(void) {
    u8 n;
    health = max_health = 12;
    dungeon = 0xFF;
    hero_object = 0xD0;
    push_way = 0xFF;
    for (n = 0; n < 12; n++) small_keys[n] = 0;
    treasures[0] = 0x20;
    sword_level = 1;
    item_a = 0x05;
    item_b = 0x19;
    treasures[3] = 0x02;
    seeds[0] = 0x20;
    scroll_mode = 1;
}

/* Title (Start), file (A), a name of three letters (A) and its end (Start, A), then an opening of three texts. */
void title(void) {
    u8 n;
    cutscene = 0x0D;
    picture(1);
    until(KEY_START);
    picture(2);
    until(KEY_A);
    picture(3);
    menu = 7;
    for (n = 0; n < 3; n++) until(KEY_A);
    until(KEY_START);
    until(KEY_A);
    menu = 0;
    new_file();
    game_state = 1;
    for (n = 0; n < 90; n++) frame();
    enter(0, 0xA7);
    hero_begin(0x38, 0x48);
    game_state = 2;
    cutscene = 6;
    for (n = 0; n < 3; n++) {
        say(16 + n);
        while (text_active) {
            frame();
            text_turn();
        }
        for (wait = 0; wait < 40; wait++) frame();
    }
    global_flags[4] |= 0x02;
    cutscene = 3;
    palette_mode = 1;
    for (n = 0; n < 30; n++) frame();
    enter(0, 0xB6);
    hero_begin(0x48, 0x78);
    palette_mode = 0;
    cutscene = 1;
}

void say(u8 text) {
    text_active = 1;
    text_mode = 0;
    text_index[0] = text;
    text_index[1] = 4;
    wait = 20;
    picture(4);
}

void text_turn(void) {
    if (wait) wait--;
    else if (keys_new & (KEY_A | KEY_B)) {
        text_active = 0;
        draw_room();
    }
}

/* 1 where a room of the ROM lies beyond the edge. */
u8 scroll_to(u8 way) {
    u8 n;
    if (!room_known) return 0;
    to_room = room + step[way];
    for (n = 0; n < room_count; n++)
        if (rooms[n][0] == group && rooms[n][1] == to_room) break;
    if (n == room_count) return 0;
    to_y = way == UP ? 116 : way == DOWN ? 8 : hero.y;
    to_x = way == LEFT ? 150 : way == RIGHT ? 10 : hero.x;
    scroll_mode = 8;
    scroll_way = way;
    wait = 20;
    return 1;
}

/* A stair, cave or hole leads back to the first room of the ROM. */
void warp(void) {
    warp_pending = 1;
    palette_mode = 1;
    wait = 20;
}

/* Scrolling and warps under way, one frame of them. */
void scene_turn(void) {
    if (--wait) return;
    if (warp_pending) {
        enter(0, 0xB6);
        hero_begin(0x48, 0x78);
    } else {
        enter(group, to_room);
        hero_begin(to_y, to_x);
    }
    warp_pending = palette_mode = 0;
    scroll_mode = 1;
}
