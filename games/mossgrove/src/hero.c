/* The hero: walking, the blade, what is underfoot, harm and death. */
#include "hero.h"
#include "assets.h"
#include "bell.h"
#include "enemy.h"
#include "frame.h"
#include "hud.h"
#include "item.h"
#include "memory.h"
#include "menu.h"
#include "part.h"
#include "room.h"
#include "sound.h"
#include "things.h"
#include "video.h"

#define WALK 0x80 /* beyond one pixel a frame, in 256ths */
#define EDGE 4
#define SWING 12
#define CUT_AT 8
#define HELD_SWING 16
#define BUMP 10
#define HOP 4
#define FALL_HARM 2
#define HURT_TIME 48
#define KNOCKBACK 8
#define MENU_REST 90 /* frames until the menu opens again: a nervous thumb shall not live in it */

static u8 step, swing, held, menu_rest;
static const u8 key_of[] = {KEY_UP, KEY_RIGHT, KEY_DOWN, KEY_LEFT};

void hero_arrive(void) {
    local_y = hero.yh;
    local_x = hero.xh;
    local_direction = hero.direction;
    swing = 0;
}

static u8 pixels(u8 *sub) {
    u8 old = *sub;
    *sub += WALK;
    return *sub < old ? 2 : 1;
}

/* Before each side of the hero: its two ends and its middle, and the way along it, by direction. */
static const i8 first_y[] = {-3, -2, 7, -2}, first_x[] = {-5, 5, -5, -6};
static const i8 last_y[] = {-3, 6, 7, 6}, last_x[] = {4, 5, 4, -6};
static const i8 middle_y[] = {-3, 2, 7, 2}, middle_x[] = {0, 5, 0, -6};
static const u8 first_keys[] = {KEY_LEFT, KEY_UP, KEY_LEFT, KEY_UP};
static const u8 last_keys[] = {KEY_RIGHT, KEY_DOWN, KEY_RIGHT, KEY_DOWN};

static void shift(u8 direction) {
    if (direction == UP) hero.yh--;
    else if (direction == RIGHT) hero.xh++;
    else if (direction == DOWN) hero.yh++;
    else hero.xh--;
}

/* One pixel; a hero who catches a corner with less than half his width slides round it. */
static void go(u8 direction) {
    u8 first = solid(hero.yh + first_y[direction], hero.xh + first_x[direction]);
    u8 last = solid(hero.yh + last_y[direction], hero.xh + last_x[direction]);
    u8 along = direction & 1 ? UP : LEFT;
    if (!first && !last) {
        shift(direction);
        return;
    }
    if (solid(hero.yh + middle_y[direction], hero.xh + middle_x[direction])) return;
    if (!last && !(keys & first_keys[direction])) shift(along ^ 2);
    else if (!first && !(keys & last_keys[direction])) shift(along);
}

static void walk(void) {
    u8 n;
    if (keys & (KEY_UP | KEY_DOWN))
        for (n = pixels(&hero.ysub); n; n--) go(keys & KEY_UP ? UP : DOWN);
    if (keys & (KEY_LEFT | KEY_RIGHT))
        for (n = pixels(&hero.xsub); n; n--) go(keys & KEY_LEFT ? LEFT : RIGHT);
}

/* Turn to the direction held; of two, keep the one already faced. */
static void face(void) {
    u8 i;
    if (keys & key_of[hero.direction]) return;
    for (i = 0; i < 4; i++)
        if (keys & key_of[i]) {
            hero.direction = i;
            return;
        }
}

static u8 leaves(void) {
    if (hero.yh < EDGE && keys & KEY_UP) return UP;
    if (hero.yh > 127 - EDGE && keys & KEY_DOWN) return DOWN;
    if (hero.xh < EDGE && keys & KEY_LEFT) return LEFT;
    if (hero.xh > 159 - EDGE && keys & KEY_RIGHT) return RIGHT;
    return 0xFF;
}

static void stay_inside(void) {
    if (hero.yh < 3 || hero.yh > 200) hero.yh = 3;
    if (hero.yh > 125) hero.yh = 125;
    if (hero.xh < 3 || hero.xh > 200) hero.xh = 3;
    if (hero.xh > 157) hero.xh = 157;
}

/* The point a step before the hero. */
static u8 ahead_y, ahead_x;
static u8 ahead(u8 reach) {
    ahead_y = hero.yh + 2;
    ahead_x = hero.xh;
    switch (hero.direction) {
    case UP:
        ahead_y -= reach;
        break;
    case RIGHT:
        ahead_x += reach;
        break;
    case DOWN:
        ahead_y += reach;
        break;
    default:
        ahead_x -= reach;
    }
    return POS(ahead_y, ahead_x);
}

/* Down a ledge: over the edge and onto the ground below it. */
static void hop(void) {
    u8 i;
    hero.state = 0x12;
    hero_in_air = 1;
    for (i = 0; i < 24; i++) {
        if (i & 1 || i & 2) hero.yh += 2;
        hero.zh = i < 12 ? 0 - i : i - 24;
        idle();
    }
    hero.zh = 0;
    hero_in_air = 0;
    hero.state = 1;
}

static void harm(u8 damage) {
    health = health > damage ? health - damage : 0;
}

static void fall_in(void) {
    u8 i;
    hero.state = 2;
    hero_in_air = 0;
    sound(SOUND_FALL);
    hero.yh = (tile_position & 0xF0) + 8;
    hero.xh = (u8)(tile_position << 4) + 8;
    for (i = 0; i < 28; i++) {
        hero.counter1 = i;
        idle();
    }
    hero.yh = local_y;
    hero.xh = local_x;
    hero.direction = local_direction;
    hero.state = 1;
    harm(FALL_HARM);
    hero.invincibility = HURT_TIME;
}

static void underfoot(void) {
    tile_position = POS(hero.yh + 4, hero.xh);
    tile_index = layout[tile_position];
    tile_type = metatile_type[tile_index];
    if (tile_type == 1 || tile_type == 7) {
        fall_in();
        return;
    }
    things_step(tile_position);
}

static void strike(void) {
    u8 position = ahead(14);
    if (swing == CUT_AT && ahead_y < 128 && ahead_x < 160) things_cut(position);
    if (swing > 2) enemies_strike(ahead_y, ahead_x, hero.direction);
}

static void use(u8 item) {
    if (item == ITEM_SWORD) {
        swing = SWING;
        sound(SOUND_SWING);
    } else if (item == ITEM_BELL) {
        bell_ring();
    }
}

/* Buttons; returns whether they took this frame. A held button swings again now and then. */
static u8 buttons(void) {
    if (menu_rest) menu_rest--;
    if (keys_new & KEY_START && !menu_rest) {
        menu_open();
        menu_rest = MENU_REST;
        return 1;
    }
    held = keys & (KEY_A | KEY_B) ? held + 1 : 0;
    if (keys_new & KEY_A && things_use(ahead(12))) return 1;
    if (keys_new & (KEY_A | KEY_B)) {
        use(keys_new & KEY_A ? item_a : item_b);
    } else if (held >= HELD_SWING) {
        held = 0;
        if ((keys & KEY_A ? item_a : item_b) == ITEM_SWORD) use(ITEM_SWORD);
    }
    return swing != 0;
}

/* The hero pushes against something: after a while it may give way. Returns whether he does. */
static u8 push(void) {
    u8 position = ahead(12);
    if (ahead_y >= 128 || ahead_x >= 160 || !collisions[position]) return 0;
    push_counter++;
    if (push_counter == HOP && hero.direction == DOWN && layout[position] == TILE_LEDGE) hop();
    if (push_counter == BUMP) {
        push_counter = 0;
        things_bump(position);
    }
    return 1;
}

/* Whoever reads memory between frames sees no half-made step: the mapped bytes are written once. */
static void move(void) {
    u8 y = hero.yh, x = hero.xh, way;
    if (!(keys & 0xF0)) {
        push_counter = 0;
        hero_angle = push_direction = 0xFF;
        return;
    }
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
    if (y != hero.yh || x != hero.xh) push_counter = 0;
    else if (push()) {
        push_direction = hero.direction;
        return;
    }
    push_direction = 0xFF;
}

static void die(void) {
    static struct warp back;
    u8 i;
    death_trigger = 1;
    disabled_objects = 0x81;
    hero.state = 3;
    menu_disabled = 1;
    sound(SOUND_FALL);
    for (i = 0; i < 48; i++) {
        hero.direction = (i >> 2) & 3;
        idle();
    }
    game_over = 1;
    bcd_count(deaths);
    health = max_health;
    back.group = respawn_group;
    back.room = respawn_room;
    back.position = POS(respawn_y, respawn_x);
    back.direction = respawn_direction;
    room_warp(&back);
    death_trigger = game_over = 0;
}

void hero_update(void) {
    u8 n;
    if (hero.invincibility) hero.invincibility--;
    if (hero.knockback) {
        hero.knockback--;
        for (n = 0; n < 2; n++) go(hero.knock_angle);
        stay_inside();
        underfoot();
        return;
    }
    if (!health) {
        die();
        return;
    }
    if (swing) {
        strike();
        swing--;
        return;
    }
    if (buttons()) return;
    move();
    underfoot();
}

void hero_hurt(u8 damage, u8 from_y, u8 from_x) {
    u8 dy = hero.yh > from_y ? hero.yh - from_y : from_y - hero.yh;
    u8 dx = hero.xh > from_x ? hero.xh - from_x : from_x - hero.xh;
    if (hero.invincibility || hero.state != 1 || no_collisions || !health) return;
    harm(damage);
    sound(SOUND_HURT);
    hero.invincibility = HURT_TIME;
    hero.knockback = KNOCKBACK;
    swing = 0;
    if (dx > dy) hero.knock_angle = hero.xh > from_x ? RIGHT : LEFT;
    else hero.knock_angle = hero.yh > from_y ? DOWN : UP;
}

u8 hero_shields(u8 shot_y, u8 shot_x) {
    u8 facing;
    if (swing || !has_treasure(ITEM_SHIELD)) return 0;
    if (hero.direction == UP) facing = shot_y < hero.yh;
    else if (hero.direction == DOWN) facing = shot_y > hero.yh;
    else if (hero.direction == LEFT) facing = shot_x < hero.xh;
    else facing = shot_x > hero.xh;
    if (!facing) return 0;
    part_add(PART_PUFF, shot_y, shot_x);
    sound(SOUND_HIT);
    return 1;
}

static void draw_blade(void) {
    u8 y = hero.yh, x = hero.xh, colour = sword_level > 1 ? PAL_GOLD : PAL_GREY;
    u8 slant = swing > CUT_AT;
    switch (hero.direction) {
    case UP:
        if (slant) sprite16(y - 11, x + 11, SPRITE_BLADE_SLANT, colour);
        else sprite8(y - 14, x - 3, SPRITE_BLADE_UP, colour);
        break;
    case RIGHT:
        if (slant) sprite16(y - 10, x + 11, SPRITE_BLADE_SLANT, colour);
        else sprite16(y + 3, x + 13, SPRITE_BLADE_SIDE, colour);
        break;
    case DOWN:
        if (slant) sprite16(y + 11, x - 11, SPRITE_BLADE_SLANT, colour | FLIP_X | FLIP_Y);
        else sprite8(y + 14, x + 2, SPRITE_BLADE_UP, colour | FLIP_Y);
        break;
    default:
        if (slant) sprite16(y - 10, x - 11, SPRITE_BLADE_SLANT, colour | FLIP_X);
        else sprite16(y + 3, x - 13, SPRITE_BLADE_SIDE, colour | FLIP_X);
    }
}

static void draw_swing(void) {
    draw_blade();
    if (hero.direction == UP) sprite16(hero.yh, hero.xh, SPRITE_HERO_SWING_UP, PAL_HERO);
    else if (hero.direction == DOWN) sprite16(hero.yh, hero.xh, SPRITE_HERO_SWING_DOWN, PAL_HERO);
    else sprite16(hero.yh, hero.xh, SPRITE_HERO_SWING_SIDE, PAL_HERO | (hero.direction == LEFT ? FLIP_X : 0));
}

void hero_draw(void) {
    u8 second = step & 8, tile, attribute = PAL_HERO, y = hero.yh + hero.zh;
    if (!hero.enabled) return;
    if (hero.state == 2) {
        if (hero.counter1 < 20) sprite16(y, hero.xh, hero.counter1 < 10 ? SPRITE_HERO_FALL : SPRITE_HERO_FALL_SMALL, PAL_HERO);
        return;
    }
    if (hero.state == 4) {
        sprite16(y, hero.xh, SPRITE_HERO_JOY, PAL_HERO);
        treasure_draw(y - 16, hero.xh, shown_treasure);
        return;
    }
    if (hero.invincibility & 4) return;
    if (swing) {
        draw_swing();
        return;
    }
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
    sprite16(y, hero.xh, tile, attribute);
    if (hero.zh) sprite8(hero.yh, hero.xh, SPRITE_SHADOW, PAL_GREY);
}
