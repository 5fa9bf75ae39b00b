/* Enemies: how each moves, strikes and falls. */
#include "enemy.h"
#include "assets.h"
#include "frame.h"
#include "hero.h"
#include "memory.h"
#include "part.h"
#include "room.h"
#include "sound.h"
#include "things.h"
#include "video.h"

#define RECENT_ROOMS 8
#define BITE 2

/* By kind: health, half width. A level 1 blade does 2, level 2 does 4. */
static const u8 healths[] = {2, 4, 2, 4, 14, 24};
static const u8 sizes[] = {6, 6, 6, 6, 13, 13};

static u8 *killed_bits(void) {
    u8 i;
    for (i = 0; i < RECENT_ROOMS * 2; i += 2)
        if (killed_list[i] == room && killed_list[i + 1]) return &killed_list[i + 1];
    return 0;
}

static void remember(u8 number) {
    u8 *bits = killed_bits();
    if (!bits) {
        bits = &killed_list[killed_list[16] + 1];
        bits[-1] = room;
        *bits = 0;
        killed_list[16] = (killed_list[16] + 2) & 0x0F;
    }
    *bits |= 1 << number;
}

void enemies_forget(void) {
    u8 i;
    for (i = 0; i < 17; i++) killed_list[i] = 0;
}

void enemy_load(u8 number, u8 kind, u8 position) {
    u8 *bits = killed_bits();
    if (bits && *bits & (1 << number)) return;
    if (kind >= ENEMY_THORNBACK && *flags & FLAG_DONE) return;
    me_load(ENEMY(number));
    me.enabled = 1;
    me.id = kind + 1;
    me.state = 0;
    me.counter1 = 24 + (number << 3);
    me.counter2 = 0;
    me.direction = DOWN;
    me.yh = (position & 0xF0) + 8;
    me.xh = (u8)(position << 4) + 8;
    me.zh = 0;
    me.health = healths[kind];
    me.invincibility = me.knockback = 0;
    me.var03 = number;
    me_store(ENEMY(number));
    enemy_count++;
}

static u8 blocked(u8 y, u8 x) {
    u8 position = POS(y, x);
    if (y < 10 || y > 118 || x < 10 || x > 150 || collisions[position]) return 1;
    return me.id - 1 != ENEMY_BAT && metatile_type[layout[position]] == 1;
}

/* One pixel; returns 1 where something is in the way. */
static u8 go(u8 direction) {
    u8 y = me.yh, x = me.xh, r = sizes[me.id - 1];
    switch (direction) {
    case UP:
        if (blocked(y - r, x - 5) || blocked(y - r, x + 5)) return 1;
        me.yh--;
        break;
    case DOWN:
        if (blocked(y + r, x - 5) || blocked(y + r, x + 5)) return 1;
        me.yh++;
        break;
    case LEFT:
        if (blocked(y - 5, x - r) || blocked(y + 5, x - r)) return 1;
        me.xh--;
        break;
    default:
        if (blocked(y - 5, x + r) || blocked(y + 5, x + r)) return 1;
        me.xh++;
    }
    return 0;
}

static u8 distance(u8 a, u8 b) {
    return a > b ? a - b : b - a;
}

static u8 towards(void) {
    if (distance(me.xh, hero.xh) > distance(me.yh, hero.yh)) return me.xh > hero.xh ? LEFT : RIGHT;
    return me.yh > hero.yh ? UP : DOWN;
}

static void slime(void) {
    if (-0 - me.counter1 == 0) {
        me.state ^= 1;
        me.counter1 = me.state ? 20 : 32 + (random() & 0x1F);
        me.direction = random() & 1 ? towards() : random() & 3;
    }
    me.zh = 0;
    if (!me.state) return;
    me.zh = me.counter1 > 10 ? me.counter1 - 20 : 0 - me.counter1;
    if (me.counter1 & 1 || me.counter1 & 2) go(me.direction);
}

static void beetle(void) {
    if (me.state) { /* charging */
        if (-0 - me.counter1 == 0 || go(me.direction) || (frame_counter & 1 && go(me.direction))) {
            me.state = 0;
            me.counter1 = 48;
        }
        return;
    }
    if (-0 - me.counter1 == 0) {
        me.counter1 = 32 + (random() & 0x1F);
        me.direction = random() & 3;
    }
    if (frame_counter & 1 && go(me.direction)) me.direction = random() & 3;
    if (me.direction == towards() && (near(me.yh, hero.yh, 6) || near(me.xh, hero.xh, 6))) {
        me.state = 1;
        me.counter1 = 48;
    }
}

static void bat(void) {
    if (-0 - me.counter1 == 0) {
        me.counter1 = 16 + (random() & 0x1F);
        me.direction = random() & 3 ? towards() : random() & 3;
        me.counter2 = random() & 3;
    }
    me.zh = 0xF8;
    if (frame_counter & 1) go(me.direction);
    if (!(frame_counter & 3)) go(me.counter2);
}

static u8 sign(u8 from, u8 to) {
    if (near(from, to, 12)) return 0;
    return from > to ? 0xFF : 1;
}

static void spore(void) {
    u8 down, right;
    if (-0 - me.counter1) return;
    me.counter1 = 100;
    down = sign(me.yh, hero.yh);
    right = sign(me.xh, hero.xh);
    if (down || right) part_shoot(me.yh, me.xh, down, right);
}

enum { STALK, RAISE, CHARGE, DIZZY };

static void thornback(void) {
    u8 n;
    switch (me.state) {
    case STALK:
        me.direction = towards();
        if (frame_counter & 1) go(me.direction);
        if (-0 - me.counter1) return;
        me.state = RAISE;
        me.counter1 = 28;
        return;
    case RAISE:
        if (-0 - me.counter1) return;
        me.state = CHARGE;
        me.direction = towards();
        me.counter1 = 60;
        return;
    case CHARGE:
        for (n = 0; n < 2; n++)
            if (go(me.direction)) me.counter1 = 1;
        if (-0 - me.counter1) return;
        me.state = DIZZY;
        me.counter1 = 56;
        sound(SOUND_HIT);
        return;
    default:
        if (-0 - me.counter1) return;
        me.state = STALK;
        me.counter1 = 64;
    }
}

#define EYE_CYCLE 144
#define EYE_OPEN 80

/* It sways; its eye opens, it spits, and only then can it be hurt. */
static void murkroot(void) {
    u8 fast = me.health < 12;
    if (++me.counter2 >= EYE_CYCLE) me.counter2 = 0;
    me.state = me.counter2 < EYE_OPEN;
    if (me.counter2 == 24 || (fast && me.counter2 == 60)) {
        part_shoot(me.yh + 6, me.xh, 1, 0);
        part_shoot(me.yh + 6, me.xh, 1, 1);
        part_shoot(me.yh + 6, me.xh, 1, 0xFF);
    }
    if (frame_counter & 1 && !fast) return;
    if (go(me.direction & 1 ? me.direction : RIGHT)) me.direction = me.direction == LEFT ? RIGHT : LEFT;
    if (!(me.direction & 1)) me.direction = RIGHT;
}

static void fall(void) {
    me.enabled = 0;
    enemy_count--;
    if (kills < 1000) kills++;
    remember(me.var03);
    part_add(PART_PUFF, me.yh, me.xh);
    if (me.id - 1 < ENEMY_THORNBACK) part_drop(me.yh, me.xh);
}

static void act(void) {
    u8 n, reach = sizes[me.id - 1] + 4;
    if (me.invincibility) me.invincibility--;
    if (me.knockback) {
        me.knockback--;
        if (me.id - 1 < ENEMY_THORNBACK && me.id - 1 != ENEMY_SPORE)
            for (n = 0; n < 3; n++) go(me.knock_angle);
        if (!me.knockback && !me.health) fall();
        return;
    }
    switch (me.id - 1) {
    case ENEMY_SLIME:
        slime();
        break;
    case ENEMY_BEETLE:
        beetle();
        break;
    case ENEMY_BAT:
        bat();
        break;
    case ENEMY_SPORE:
        spore();
        break;
    case ENEMY_THORNBACK:
        thornback();
        break;
    default:
        murkroot();
    }
    if (near(me.yh, hero.yh, reach) && near(me.xh, hero.xh, reach)) hero_hurt(BITE, me.yh, me.xh);
}

void enemies_update(void) {
    u8 i;
    for (i = 0; i < ENEMIES; i++)
        if (ENEMY(i)->enabled) {
            me_load(ENEMY(i));
            act();
            me_store(ENEMY(i));
        }
}

void enemies_strike(u8 y, u8 x, u8 direction) {
    u8 i, reach, damage = sword_level > 1 ? 4 : 2;
    for (i = 0; i < ENEMIES; i++) {
        me_load(ENEMY(i));
        if (!me.enabled || me.invincibility) continue;
        reach = sizes[me.id - 1] + 9;
        if (!near(me.yh, y, reach) || !near(me.xh, x, reach)) continue;
        me.invincibility = 20;
        if (me.id - 1 != ENEMY_MURKROOT || me.state) {
            me.health = me.health > damage ? me.health - damage : 0;
            me.knock_angle = direction;
            me.knockback = 6;
            sound(SOUND_HIT);
        }
        me_store(ENEMY(i));
    }
}

static void draw_big(u8 y, u8 x, u8 tile, u8 palette) {
    sprite16(y - 8, x - 8, tile, palette);
    sprite16(y + 8, x - 8, tile + 4, palette);
    sprite16(y - 8, x + 8, tile, palette | FLIP_X);
    sprite16(y + 8, x + 8, tile + 4, palette | FLIP_X);
}

static void draw(void) {
    u8 y = me.yh + me.zh, x = me.xh, beat = frame_counter & 0x10;
    u8 flash = me.invincibility & 2 ? PAL_GREY : 0;
    switch (me.id - 1) {
    case ENEMY_SLIME:
        sprite16(y, x, me.state ? SPRITE_SLIME_2 : SPRITE_SLIME_1, flash ? flash : PAL_GREEN);
        break;
    case ENEMY_BEETLE:
        if (me.direction & 1)
            sprite16(y, x, frame_counter & 8 ? SPRITE_BEETLE_SIDE_1 : SPRITE_BEETLE_SIDE_2,
                     (flash ? flash : PAL_BLUE) | (me.direction == LEFT ? FLIP_X : 0));
        else
            sprite16(y, x, SPRITE_BEETLE_FRONT,
                     (flash ? flash : PAL_BLUE) | (frame_counter & 8 ? FLIP_X : 0) | (me.direction == UP ? FLIP_Y : 0));
        break;
    case ENEMY_BAT:
        sprite16(y, x, frame_counter & 8 ? SPRITE_BAT_1 : SPRITE_BAT_2, flash ? flash : PAL_VIOLET);
        break;
    case ENEMY_SPORE:
        sprite16(y, x, me.counter1 < 24 ? SPRITE_SPORE_2 : SPRITE_SPORE_1, flash ? flash : PAL_RED);
        break;
    case ENEMY_THORNBACK:
        if (me.state == RAISE && frame_counter & 2) x++;
        draw_big(y, x, SPRITE_THORNBACK_1, flash ? flash : me.state == DIZZY ? PAL_BLUE : PAL_BROWN);
        break;
    default:
        draw_big(y, x, SPRITE_BOSS_1, flash ? flash : me.state ? PAL_RED : PAL_BROWN);
    }
    if (beat && me.zh) sprite8(me.yh, x, SPRITE_SHADOW, PAL_GREY);
}

void enemies_draw(void) {
    u8 i;
    for (i = 0; i < ENEMIES; i++)
        if (ENEMY(i)->enabled) {
            me_load(ENEMY(i));
            draw();
        }
}
