/* Small things that come and go: drops, spit, puffs. */
#include "part.h"
#include "assets.h"
#include "frame.h"
#include "hero.h"
#include "item.h"
#include "memory.h"
#include "room.h"
#include "sound.h"
#include "things.h"
#include "video.h"

#define LIFE 240
#define PUFF_LIFE 16
#define SPIT_DAMAGE 2

static u8 parts_here; /* whether any is */

struct object *part_add(u8 kind, u8 y, u8 x) {
    struct object *o;
    u8 i;
    for (i = 0; i < PARTS; i++) {
        o = PART(i);
        if (o->enabled) continue;
        o->enabled = parts_here = 1;
        o->id = kind;
        o->yh = y;
        o->xh = x;
        o->counter1 = kind == PART_PUFF ? PUFF_LIFE : LIFE;
        return o;
    }
    return 0;
}

void part_shoot(u8 y, u8 x, u8 down, u8 right) {
    struct object *o = part_add(PART_SPIT, y, x);
    if (!o) return;
    o->var11[0] = down;
    o->var11[1] = right;
}

/* The weak find more hearts. */
void part_drop(u8 y, u8 x) {
    u8 chance = random() & 0x0F, hearts = health <= max_health >> 1 ? 14 : 8;
    if (chance < 4) part_add(PART_AMBER, y, x);
    else if (chance < hearts) part_add(PART_HEART, y, x);
    else if (chance == 15) part_add(PART_CLUSTER, y, x);
}

static void pick(void) {
    if (me.id == PART_HEART) heal(4);
    else amber_add(me.id == PART_CLUSTER ? 5 : 1);
    me.enabled = 0;
    sound(SOUND_PICK);
}

static void fly(void) {
    u8 n = frame_counter & 1 ? 2 : 1;
    while (n--) {
        me.yh += me.var11[0];
        me.xh += me.var11[1];
    }
    if (me.yh > 124 || me.xh > 156 || solid(me.yh, me.xh)) {
        me.id = PART_PUFF;
        me.counter1 = PUFF_LIFE;
    } else if (near(me.yh, hero.yh, 9) && near(me.xh, hero.xh, 9)) {
        me.enabled = 0;
        if (!hero_shields(me.yh, me.xh)) hero_hurt(SPIT_DAMAGE, me.yh, me.xh);
    }
}

void parts_update(void) {
    u8 i;
    if (!parts_here) return;
    parts_here = 0;
    for (i = 0; i < PARTS; i++) {
        if (!PART(i)->enabled) continue;
        parts_here = 1;
        me_load(PART(i));
        if (me.id == PART_SPIT) fly();
        else if (!--me.counter1) me.enabled = 0;
        else if (me.id != PART_PUFF && near(me.yh, hero.yh, 12) && near(me.xh, hero.xh, 12)) pick();
        me_store(PART(i));
    }
}

void parts_draw(void) {
    u8 i;
    if (!parts_here) return;
    for (i = 0; i < PARTS; i++) {
        if (!PART(i)->enabled) continue;
        me_load(PART(i));
        switch (me.id) {
        case PART_PUFF:
            sprite16(me.yh, me.xh, me.counter1 > 8 ? SPRITE_PUFF_1 : SPRITE_PUFF_2, PAL_GREY);
            break;
        case PART_SPIT:
            sprite8(me.yh, me.xh, SPRITE_SPIT, PAL_VIOLET);
            break;
        default:
            if (me.counter1 < 60 && me.counter1 & 4) break;
            sprite8(me.yh, me.xh, me.id == PART_HEART ? SPRITE_HEART : SPRITE_AMBER,
                    me.id == PART_HEART ? PAL_RED : me.id == PART_AMBER ? PAL_GOLD : PAL_BLUE);
        }
    }
}
