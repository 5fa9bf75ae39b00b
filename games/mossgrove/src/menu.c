/* The satchel: items, map, what has been gathered. Start, A or B leave it. */
#include "menu.h"
#include "assets.h"
#include "frame.h"
#include "hud.h"
#include "item.h"
#include "memory.h"
#include "room.h"
#include "text.h"
#include "things.h"
#include "video.h"

#define CLOSED 128
#define SLOTS 3

static const u8 carried[] = {ITEM_SWORD, ITEM_BELL, ITEM_SHIELD};
static u8 cursor;

static void write(u8 row, u8 column, const char *word) {
    while (*word) window_put(row, column++, font[(u8)(*word++ - 32)], 0);
}

static void draw_items(void) {
    u8 i;
    for (i = 0; i < SLOTS; i++) {
        if (has_treasure(carried[i])) icon_put(4, 2 + (i << 2), carried[i]);
        window_put(6, 2 + (i << 2), i == cursor ? GLYPH_BOX_TOP : 0, FLIP_Y);
        window_put(6, 3 + (i << 2), i == cursor ? GLYPH_BOX_TOP : 0, FLIP_Y);
    }
}

static void draw_name(void) {
    u8 i;
    for (i = 1; i < 19; i++) window_put(7, i, 0, 0);
    if (!has_treasure(carried[cursor])) return;
    if (carried[cursor] == ITEM_SWORD) write(7, 1, sword_level > 1 ? "Heartwood Blade" : "Twig Blade");
    else write(7, 1, carried[cursor] == ITEM_BELL ? "Season Bell" : "Bark Shield");
}

/* Rooms seen, four by four outdoors or of the dungeon. */
static void draw_map(void) {
    u8 row, column, number, tile, in_group = group == 3 ? minimap_group : group;
    u8 now = group == 3 ? minimap_room : room;
    for (row = 0; row < 4; row++)
        for (column = 0; column < 4; column++) {
            number = (row << 4) | column;
            tile = *room_flags_of(in_group, number) & FLAG_VISITED ? GLYPH_CELL_SEEN : GLYPH_CELL_NEW;
            if (number == now) tile = GLYPH_CELL_HERE;
            window_put(11 + row, 3 + column, tile, 0);
        }
}

static void draw_gathered(void) {
    static const char *const names[] = {"Spring", "Summer", "Autumn", "Winter"};
    u8 i;
    for (i = 0; i < 4; i++)
        if (seasons & (1 << i)) {
            write(11 + i, 11, names[i]);
            window_put(11 + i, 10, i == season ? font['>' - 32] : 0, 0);
        }
    window_put(16, 3, GLYPH_HEART_4, 0);
    window_put(16, 4, font['+' - 32], 0);
    window_put(16, 5, font['0' - 32 + heart_pieces], 0);
    write(16, 6, "/4");
    window_put(16, 11, essences & 1 ? GLYPH_LIGHT_ON : GLYPH_LIGHT_OFF, 0);
    window_put(16, 13, essences & 2 ? GLYPH_LIGHT_ON : GLYPH_LIGHT_OFF, 0);
}

static void draw(void) {
    u8 row, column;
    for (row = 2; row < 18; row++)
        for (column = 0; column < 20; column++) window_put(row, column, 0, 0);
    write(2, 1, "Satchel");
    for (column = 1; column < 19; column++) {
        window_put(3, column, GLYPH_BOX_TOP, 0);
        window_put(9, column, GLYPH_BOX_TOP, 0);
    }
    write(10, 1, "Map");
    if (seasons & 0x80) write(10, 10, "Seasons");
    draw_items();
    draw_name();
    draw_map();
    draw_gathered();
}

static void equip(void) {
    u8 item = carried[cursor];
    if (!has_treasure(item) || item == ITEM_SHIELD) return;
    if (keys_new & KEY_A) {
        if (item_b == item) item_b = item_a;
        item_a = item;
    } else {
        if (item_a == item) item_a = item_b;
        item_b = item;
    }
}

static void slide(u8 to) {
    while (window_y != to) {
        window_y += window_y > to ? -16 : 16;
        idle();
    }
}

void menu_open(void) {
    menu_type = 1;
    draw();
    slide(0);
    for (;;) {
        idle();
        if (keys_new & KEY_START) break;
        if (keys_new & (KEY_A | KEY_B)) {
            equip();
            break;
        }
        if (keys_new & 0xF0) {
            if (keys_new & KEY_LEFT) cursor = cursor ? cursor - 1 : SLOTS - 1;
            else if (keys_new & KEY_RIGHT) cursor = cursor == SLOTS - 1 ? 0 : cursor + 1;
            draw_items();
            draw_name();
        }
    }
    slide(CLOSED);
    menu_type = 0;
    box_draw();
    hud_redraw();
}
