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
#define PAGE 4 /* objects of 64 bytes */

/* By kind: health, half width. A level 1 blade does 2, level 2 does 4. */
static const u8 healths[] = {2, 4, 2, 4, 12, 24};
static const u8 sizes[] = {6, 6, 6, 6, 13, 13};

u8 me_flies; /* over holes */

u8 blocked(u8 y, u8 x); /* in crt0.s: may an enemy not be there? */

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
    me.counter1 = 12 + (number << 2);
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

/* One pixel; returns 1 where something is in the way. */
static u8 go(u8 direction) {
    u8 y = me.yh, x = me.xh, r = sizes[me.id - 1], ahead;
    if (direction & 1) {
        ahead = direction == RIGHT ? x + r : x - r;
        if (blocked(y - 5, ahead) || blocked(y + 5, ahead)) return 1;
        me.xh = direction == RIGHT ? x + 1 : x - 1;
    } else {
        ahead = direction == DOWN ? y + r : y - r;
        if (blocked(ahead, x - 5) || blocked(ahead, x + 5)) return 1;
        me.yh = direction == DOWN ? y + 1 : y - 1;
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

/* Each enemy acts in every second frame: a pixel an act is half a pixel a frame. */

static void slime(void) {
    if (--me.counter1 == 0) {
        me.state ^= 1;
        me.counter1 = me.state ? 10 : 16 + (random() & 0x0F);
        me.direction = random() & 1 ? towards() : random() & 3;
    }
    me.zh = 0;
    if (!me.state) return;
    me.zh = (me.counter1 > 5 ? me.counter1 - 10 : 0 - me.counter1) << 1;
    go(me.direction);
    if (me.counter1 & 1) go(me.direction);
}

static void beetle(void) {
    if (me.state) { /* charging */
        if (--me.counter1 == 0 || go(me.direction) || go(me.direction) || go(me.direction)) {
            me.state = 0;
            me.counter1 = 24;
        }
        return;
    }
    if (--me.counter1 == 0) {
        me.counter1 = 16 + (random() & 0x0F);
        me.direction = random() & 3;
    }
    if (go(me.direction)) me.direction = random() & 3;
    if (me.direction == towards() && (near(me.yh, hero.yh, 6) || near(me.xh, hero.xh, 6))) {
        me.state = 1;
        me.counter1 = 24;
    }
}

static void bat(void) {
    if (--me.counter1 == 0) {
        me.counter1 = 8 + (random() & 0x0F);
        me.direction = random() & 3 ? towards() : random() & 3;
        me.counter2 = random() & 3;
    }
    me.zh = 0xF8;
    go(me.direction);
    if (frame_counter & 2) go(me.counter2);
}

static u8 sign(u8 from, u8 to) {
    if (near(from, to, 12)) return 0;
    return from > to ? 0xFF : 1;
}

static void spore(void) {
    u8 down, right;
    if (--me.counter1) return;
    me.counter1 = 50;
    down = sign(me.yh, hero.yh);
    right = sign(me.xh, hero.xh);
    if (down || right) part_shoot(me.yh, me.xh, down, right);
}

enum { STALK, RAISE, CHARGE, DIZZY };

static void thornback(void) {
    u8 n;
    if (me.state == STALK) {
        me.direction = towards();
        go(me.direction);
    } else if (me.state == CHARGE) {
        for (n = 0; n < 4; n++)
            if (go(me.direction)) me.counter1 = 1;
    }
    if (--me.counter1) return;
    switch (me.state) {
    case STALK:
        me.counter1 = 14;
        break;
    case RAISE:
        me.direction = towards();
        me.counter1 = 30;
        break;
    case CHARGE:
        me.counter1 = 28;
        sound(SOUND_HIT);
        break;
    default:
        me.counter1 = 32;
    }
    me.state = (me.state + 1) & 3;
}

#define EYE_CYCLE 72
#define EYE_OPEN 40
#define SPITS 12
#define SPITS_AGAIN 30
#define ANGRY 12

/* It sways; it stops, its eye opens, it spits, and only then can it be hurt. */
static void murkroot(void) {
    u8 angry = me.health < ANGRY;
    if (++me.counter2 >= EYE_CYCLE) me.counter2 = 0;
    me.state = me.counter2 < EYE_OPEN;
    if (me.counter2 == SPITS || (angry && me.counter2 == SPITS_AGAIN)) {
        part_shoot(me.yh + 6, me.xh, 1, 0);
        part_shoot(me.yh + 6, me.xh, 1, 1);
        part_shoot(me.yh + 6, me.xh, 1, 0xFF);
    }
    if (me.state) return;
    if (!(me.direction & 1)) me.direction = RIGHT;
    if (go(me.direction) || (angry && go(me.direction))) me.direction ^= RIGHT ^ LEFT;
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
    me_flies = me.id - 1 == ENEMY_BAT;
    if (me.invincibility) me.invincibility--;
    if (me.knockback) {
        me.knockback--;
        if (me.id - 1 < ENEMY_THORNBACK && me.id - 1 != ENEMY_SPORE)
            for (n = 0; n < 6; n++) go(me.knock_angle);
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
    struct object *o = ENEMY(frame_counter & 1);
    u8 i;
    if (!enemy_count) return;
    for (i = 0; i < ENEMIES; i += 2, o += 2 * PAGE)
        if (o->enabled) {
            me_load(o);
            act();
            me_store(o);
        }
}

void enemies_strike(u8 y, u8 x, u8 direction) {
    u8 i, reach, damage = sword_level > 1 ? 4 : 2;
    for (i = 0; i < ENEMIES; i++) {
        me_load(ENEMY(i));
        if (!me.enabled || me.invincibility) continue;
        reach = sizes[me.id - 1] + 9;
        if (!near(me.yh, y, reach) || !near(me.xh, x, reach)) continue;
        me.invincibility = 10;
        if (me.id - 1 != ENEMY_MURKROOT || me.state) {
            me.health = me.health > damage ? me.health - damage : 0;
            me.knock_angle = direction;
            me.knockback = 3;
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

/* By kind: two pictures, a palette, and a byte that makes the row a power of two. */
static const u8 pictures[][4] = {
    {SPRITE_SLIME_1, SPRITE_SLIME_2, PAL_GREEN, 0},   {SPRITE_BEETLE_SIDE_1, SPRITE_BEETLE_SIDE_2, PAL_BLUE, 0},
    {SPRITE_BAT_1, SPRITE_BAT_2, PAL_VIOLET, 0},      {SPRITE_SPORE_1, SPRITE_SPORE_2, PAL_RED, 0},
    {SPRITE_THORNBACK_1, SPRITE_THORNBACK_1, PAL_BROWN, 0}, {SPRITE_BOSS_1, SPRITE_BOSS_1, PAL_BROWN, 0}};

static const u8 beetle_front[] = {SPRITE_BEETLE_FRONT, SPRITE_BEETLE_FRONT};

static void draw(void) {
    u8 kind = me.id - 1, second = frame_counter & 8, x = me.xh, look;
    const u8 *picture = pictures[kind];
    look = picture[2];
    if (kind == ENEMY_SLIME) second = me.state;
    else if (kind == ENEMY_SPORE) second = me.counter1 < 12;
    else if (kind == ENEMY_THORNBACK) {
        if (me.state == RAISE && frame_counter & 2) x++;
        if (me.state == DIZZY) look = PAL_BLUE;
    } else if (kind == ENEMY_MURKROOT && me.state) look = PAL_RED;
    if (me.invincibility & 2) look = PAL_GREY;
    if (kind >= ENEMY_THORNBACK) {
        draw_big(me.yh, x, picture[0], look);
        return;
    }
    if (kind == ENEMY_BEETLE) {
        if (me.direction & 1) {
            if (me.direction == LEFT) look |= FLIP_X;
        } else {
            picture = beetle_front;
            if (second) look |= FLIP_X;
            if (me.direction == UP) look |= FLIP_Y;
        }
    }
    sprite16(me.yh + me.zh, x, second ? picture[1] : picture[0], look);
    if (me.zh && frame_counter & 2) sprite8(me.yh, x, SPRITE_SHADOW, PAL_GREY);
}

void enemies_draw(void) {
    struct object *o = ENEMY(0);
    u8 i;
    if (!enemy_count) return;
    for (i = 0; i < ENEMIES; i++, o += PAGE)
        if (o->enabled) {
            me_load(o);
            draw();
        }
}
