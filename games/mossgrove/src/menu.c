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
#define ITEM_ROW 7
#define LINE_ROW 10
#define MAP_ROW 12
#define LAST_ROW 17

static const u8 carried[] = {ITEM_SWORD, ITEM_BELL, ITEM_SHIELD};
static u8 cursor;

static void write(u8 row, u8 column, const char *word) {
    while (*word) window_put(row, column++, font[(u8)(*word++ - 32)], 0);
}

/* What never changes; the text box above it shows the name of the item. */
void menu_draw(void) {
    u8 row, column;
    for (row = ITEM_ROW; row <= LAST_ROW; row++)
        for (column = 0; column < 20; column++) window_put(row, column, 0, 0);
    for (column = 1; column < 19; column++) window_put(LINE_ROW, column, GLYPH_BOX_TOP, 0);
    write(MAP_ROW - 1, 3, "Map");
    window_put(LAST_ROW, 3, GLYPH_HEART_4, 0);
    write(LAST_ROW, 4, "+");
    write(LAST_ROW, 6, "/4");
}

static void draw_items(void) {
    u8 i, tile;
    for (i = 0; i < SLOTS; i++) {
        if (has_treasure(carried[i])) icon_put(ITEM_ROW, 2 + (i << 2), carried[i]);
        tile = i == cursor ? GLYPH_BOX_TOP : 0;
        window_put(ITEM_ROW + 2, 2 + (i << 2), tile, FLIP_Y);
        window_put(ITEM_ROW + 2, 3 + (i << 2), tile, FLIP_Y);
    }
    box_clear();
    if (!has_treasure(carried[cursor])) return;
    if (carried[cursor] == ITEM_SWORD) write(3, 1, sword_level > 1 ? "Heartwood Blade" : "Twig Blade");
    else write(3, 1, carried[cursor] == ITEM_BELL ? "Season Bell" : "Bark Shield");
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
            window_put(MAP_ROW + row, 3 + column, tile, 0);
        }
}

static void draw_gathered(void) {
    static const char *const names[] = {"Spring", "Summer", "Autumn", "Winter"};
    u8 i;
    for (i = 0; i < 4; i++)
        if (seasons & (1 << i)) {
            write(MAP_ROW + i, 11, names[i]);
            window_put(MAP_ROW + i, 10, i == season ? font['>' - 32] : 0, 0);
        }
    window_put(LAST_ROW, 5, font['0' - 32 + heart_pieces], 0);
    for (i = 0; i < 2; i++)
        window_put(LAST_ROW, 11 + (i << 1), essences & (1 << i) ? GLYPH_LIGHT_ON : GLYPH_LIGHT_OFF, 0);
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
    draw_items();
    draw_map();
    draw_gathered();
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
        }
    }
    slide(CLOSED);
    menu_type = 0;
}
