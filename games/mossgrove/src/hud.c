/* The status line: buttons, hearts, amber, keys, lights. */
#include "hud.h"
#include "assets.h"
#include "memory.h"
#include "room.h"
#include "video.h"

#define BEHIND 0x80 /* sprites pass behind */
#define TEXT_PALETTE 7
#define MAX_HEARTS 10

static u8 seen[8]; /* what is on the screen, to find what changed */
static u8 stale;

void window_put(u8 row, u8 column, u8 tile, u8 attribute) {
    tile_put(WINDOW + ((u16)row << 5) + column, tile, attribute | BEHIND | TEXT_PALETTE);
}

void icon_put(u8 row, u8 column, u8 item) {
    u8 tile = ICON_NONE;
    if (item == ITEM_SWORD) tile = sword_level > 1 ? ICON_SWORD_2 : ICON_SWORD;
    if (item == ITEM_BELL) tile = ICON_BELL;
    if (item == ITEM_SHIELD) tile = ICON_SHIELD;
    window_put(row, column, tile, 0);
    window_put(row, column + 1, tile + 1, 0);
    window_put(row + 1, column, tile + 2, 0);
    window_put(row + 1, column + 1, tile + 3, 0);
}

static void digit(u8 row, u8 column, u8 value) {
    window_put(row, column, font['0' - 32 + (value & 0x0F)], 0);
}

void number_put(u8 row, u8 column, const u8 *bcd) {
    digit(row, column, bcd[1]);
    digit(row, column + 1, bcd[0] >> 4);
    digit(row, column + 2, bcd[0]);
}

static void draw_hearts(void) {
    u8 i, full = 0, tile;
    for (i = 0; i < MAX_HEARTS; i++) {
        tile = 0;
        if (full < max_health) {
            if (health >= full + 4)
                tile = GLYPH_HEART_4;
            else if (health > full)
                tile = GLYPH_HEART_0 - (health - full);
            else
                tile = GLYPH_HEART_0;
        }
        window_put(0, 7 + i, tile, 0);
        full += 4;
    }
}

static void draw_counters(void) {
    u8 keys_here = dungeon == NO_DUNGEON ? 0 : small_keys[dungeon];
    u8 great = dungeon != NO_DUNGEON && boss_keys[0] & (1 << dungeon);
    window_put(1, 7, GLYPH_AMBER, 0);
    number_put(1, 8, amber);
    window_put(1, 12, dungeon == NO_DUNGEON ? 0 : GLYPH_KEY, 0);
    window_put(1, 13, dungeon == NO_DUNGEON ? 0 : font['0' - 32 + keys_here], 0);
    window_put(1, 15, great ? GLYPH_GREAT_KEY : 0, 0);
    window_put(1, 17, essences & 1 ? GLYPH_LIGHT_ON : GLYPH_LIGHT_OFF, 0);
    window_put(1, 18, essences & 2 ? GLYPH_LIGHT_ON : GLYPH_LIGHT_OFF, 0);
}

static void draw_buttons(void) {
    window_put(0, 0, font['B' - 32], 0);
    window_put(0, 3, font['A' - 32], 0);
    icon_put(0, 1, item_b);
    icon_put(0, 4, item_a);
}

static u8 changed(u8 slot, u8 value) {
    if (seen[slot] == value) return 0;
    seen[slot] = value;
    return 1;
}

void hud_redraw(void) {
    stale = 7;
}

/* One part a frame: together they would not fit the queue. */
void hud_update(void) {
    if (!stale && frame_counter & 3) return;
    if (changed(0, health) | changed(1, max_health)) stale |= 1;
    if (changed(2, amber[0]) | changed(3, amber[1]) | changed(4, essences) | changed(5, dungeon)) stale |= 2;
    if (dungeon != NO_DUNGEON && changed(6, small_keys[dungeon] + (boss_keys[0] << 4))) stale |= 2;
    if (changed(7, item_a ^ (item_b << 4) ^ (sword_level << 6))) stale |= 4;
    if (!stale || queue_count > 8) return;
    if (stale & 1) {
        draw_hearts();
        stale &= 6;
    } else if (stale & 2) {
        draw_counters();
        stale &= 5;
    } else {
        draw_buttons();
        stale = 0;
    }
}
