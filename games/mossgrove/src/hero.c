/* The hero: walking, and what is underfoot. */
#include "hero.h"
#include "assets.h"
#include "memory.h"
#include "room.h"
#include "video.h"

#define WALK 0x40 /* quarter pixels beyond one a frame */
#define EDGE 4

static u8 step;

void hero_arrive(void) {
    local_y = hero.yh;
    local_x = hero.xh;
    local_direction = hero.direction;
}

static u8 pixels(u8 *sub) {
    u8 old = *sub;
    *sub += WALK;
    return *sub < old ? 2 : 1;
}

static void walk_up(void) {
    u8 left = solid(hero.yh - 3, hero.xh - 5), right = solid(hero.yh - 3, hero.xh + 4);
    if (!left && !right) hero.yh--;
    else if (left && !right && !(keys & KEY_LEFT)) hero.xh++;
    else if (right && !left && !(keys & KEY_RIGHT)) hero.xh--;
}

static void walk_down(void) {
    u8 left = solid(hero.yh + 7, hero.xh - 5), right = solid(hero.yh + 7, hero.xh + 4);
    if (!left && !right) hero.yh++;
    else if (left && !right && !(keys & KEY_LEFT)) hero.xh++;
    else if (right && !left && !(keys & KEY_RIGHT)) hero.xh--;
}

static void walk_left(void) {
    u8 top = solid(hero.yh - 2, hero.xh - 6), bottom = solid(hero.yh + 6, hero.xh - 6);
    if (!top && !bottom) hero.xh--;
    else if (top && !bottom && !(keys & KEY_UP)) hero.yh++;
    else if (bottom && !top && !(keys & KEY_DOWN)) hero.yh--;
}

static void walk_right(void) {
    u8 top = solid(hero.yh - 2, hero.xh + 5), bottom = solid(hero.yh + 6, hero.xh + 5);
    if (!top && !bottom) hero.xh++;
    else if (top && !bottom && !(keys & KEY_UP)) hero.yh++;
    else if (bottom && !top && !(keys & KEY_DOWN)) hero.yh--;
}

static void walk(void) {
    u8 n;
    if (keys & KEY_UP) {
        for (n = pixels(&hero.ysub); n; n--) walk_up();
    } else if (keys & KEY_DOWN) {
        for (n = pixels(&hero.ysub); n; n--) walk_down();
    }
    if (keys & KEY_LEFT) {
        for (n = pixels(&hero.xsub); n; n--) walk_left();
    } else if (keys & KEY_RIGHT) {
        for (n = pixels(&hero.xsub); n; n--) walk_right();
    }
}

/* Turn to the one direction held; with two, keep the old one if it is among them. */
static void face(void) {
    static const u8 masks[] = {KEY_UP, KEY_RIGHT, KEY_DOWN, KEY_LEFT};
    u8 i;
    if (keys & masks[hero.direction]) return;
    for (i = 0; i < 4; i++)
        if (keys & masks[i]) {
            hero.direction = i;
            return;
        }
}

static u8 leaves(void) {
    if (hero.yh < EDGE && (keys & KEY_UP)) return UP;
    if (hero.yh > 127 - EDGE && (keys & KEY_DOWN)) return DOWN;
    if (hero.xh < EDGE && (keys & KEY_LEFT)) return LEFT;
    if (hero.xh > 159 - EDGE && (keys & KEY_RIGHT)) return RIGHT;
    return 0xFF;
}

static void stay_inside(void) {
    if (hero.yh < 3) hero.yh = 3;
    if (hero.yh > 125) hero.yh = 125;
    if (hero.xh < 3) hero.xh = 3;
    if (hero.xh > 157) hero.xh = 157;
}

void hero_update(void) {
    u8 way;
    hero_angle = 0xFF;
    if (keys & 0xF0) {
        face();
        hero_angle = hero.angle = hero.direction << 3;
        step++;
        walk();
        way = leaves();
        if (way != 0xFF && room_has_neighbour(way)) {
            room_scroll(way);
            return;
        }
        stay_inside();
    }
    tile_position = POS(hero.yh + 5, hero.xh);
    tile_index = layout[tile_position];
    tile_type = metatile_type[tile_index];
}

void hero_draw(void) {
    u8 second = step & 8, tile, attribute = PAL_HERO;
    switch (hero.direction) {
    case UP:
        tile = SPRITE_HERO_UP_1;
        if (second) attribute |= FLIP_X;
        break;
    case DOWN:
        tile = SPRITE_HERO_DOWN_1;
        if (second) attribute |= FLIP_X;
        break;
    default:
        tile = second ? SPRITE_HERO_SIDE_2 : SPRITE_HERO_SIDE_1;
        if (hero.direction == LEFT) attribute |= FLIP_X;
    }
    sprite16(hero.yh, hero.xh, tile, attribute);
}
