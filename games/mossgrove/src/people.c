/* People: who they are, what they say, what they sell. */
#include "people.h"
#include "assets.h"
#include "frame.h"
#include "hud.h"
#include "item.h"
#include "memory.h"
#include "room.h"
#include "sound.h"
#include "text.h"
#include "things.h"
#include "video.h"

#define REQUEST 0x22  /* global flags of the story */
#define FINISHED 0x28
#define TONIC_HEALS 40

enum { WARE_TONIC, WARE_SHIELD, WARE_PIECE };

struct look { u8 sprite, palette; };
struct ware { u8 treasure, price, question; };

static const struct look looks[] = {
    {SPRITE_ELDER, PAL_BLUE}, {SPRITE_CHILD, PAL_GREEN}, {SPRITE_BELLMAKER, PAL_VIOLET}, {SPRITE_KEEPER, PAL_BROWN}};
static const struct ware wares[] = {{TREASURE_HEART, 10, TEXT_WARE_TONIC},
                                    {TREASURE_SHIELD, 30, TEXT_WARE_SHIELD},
                                    {TREASURE_PIECE, 50, TEXT_WARE_PIECE}};
static const struct warp from_grotto = {0, 0x22, 0x27, DOWN};
static const struct warp from_vault = {0, 0x01, 0x44, DOWN};

static void story(u8 flag) {
    global_flags[flag >> 3] |= 1 << (flag & 7);
}

static u8 sold(u8 ware) {
    if (ware == WARE_SHIELD) return has_treasure(ITEM_SHIELD);
    return ware == WARE_PIECE && *flags & FLAG_TAKEN;
}

void people_load(u8 kind, u8 position, u8 ware) {
    struct object *o;
    u8 i;
    for (i = 0; i < NPCS; i++) {
        o = NPC(i);
        if (o->enabled) continue;
        o->enabled = 1;
        o->id = kind + 1;
        o->subid = ware;
        o->var03 = position;
        o->direction = DOWN;
        o->yh = (position & 0xF0) + 8;
        o->xh = (u8)(position << 4) + 8;
        return;
    }
}

void people_draw(void) {
    struct object *o;
    u8 i;
    if (!NPC(0)->enabled) return;
    for (i = 0; i < NPCS; i++) {
        o = NPC(i);
        if (!o->enabled) continue;
        if (o->id - 1 == NPC_WARE) {
            if (!sold(o->subid)) treasure_draw(o->yh - 4, o->xh, wares[o->subid].treasure);
            continue;
        }
        sprite16(o->yh - (frame_counter & 0x20 ? 1 : 0), o->xh, looks[o->id - 1].sprite,
                 looks[o->id - 1].palette | (o->direction == LEFT ? FLIP_X : 0));
    }
}

static void elder(void) {
    if (essences & 2) say(TEXT_ELDER_DONE);
    else if (has_treasure(ITEM_BELL)) say(TEXT_ELDER_POND);
    else if (essences & 1) say(TEXT_ELDER_BELL);
    else if (sword_level) say(TEXT_ELDER_GROTTO);
    else say(TEXT_ELDER_REQUEST);
    story(REQUEST);
}

static void bellmaker(void) {
    if (has_treasure(ITEM_BELL)) {
        say(TEXT_BELLMAKER_AFTER);
    } else if (!(essences & 1)) {
        say(TEXT_BELLMAKER_BEFORE);
    } else if (ask(TEXT_BELLMAKER_ASK)) {
        give(TREASURE_BELL, 0);
        say(TEXT_BELLMAKER_AFTER);
    } else {
        say(TEXT_BELLMAKER_NO);
    }
}

static void child(void) {
    if (!sword_level) say(TEXT_CHILD_BLADE);
    else if (seasons & 0x80) say(TEXT_CHILD_SHRINES);
    else say(TEXT_CHILD_BUSHES);
}

static void sell(u8 number) {
    const struct ware *w = &wares[number];
    if (sold(number)) return;
    if (!ask(w->question)) return;
    if (!amber_pay(w->price)) {
        say(TEXT_SHOP_POOR);
        return;
    }
    if (number == WARE_TONIC) {
        heal(TONIC_HEALS);
        sound(SOUND_PICK);
        say(TEXT_SHOP_TONIC);
        return;
    }
    if (number == WARE_PIECE) *flags |= FLAG_TAKEN;
    give(w->treasure, 1);
}

u8 people_talk(u8 position) {
    struct object *o;
    u8 i;
    for (i = 0; i < NPCS; i++) {
        o = NPC(i);
        if (!o->enabled || o->var03 != position) continue;
        o->direction = hero.xh < o->xh ? LEFT : RIGHT;
        switch (o->id - 1) {
        case NPC_ELDER:
            elder();
            break;
        case NPC_CHILD:
            child();
            break;
        case NPC_BELLMAKER:
            bellmaker();
            break;
        case NPC_KEEPER:
            say(TEXT_SHOP_WELCOME);
            break;
        default:
            sell(o->subid);
        }
        return 1;
    }
    return 0;
}

void people_light(void) {
    health = max_health;
    if (dungeon == 1) {
        room_warp(&from_grotto);
        return;
    }
    cutscene_index = 0x0A;
    disabled_objects = 0x81;
    say(TEXT_ENDING);
    story(FINISHED);
    disabled_objects = 0;
    season = SPRING;
    room_warp(&from_vault);
    say(TEXT_THE_END);
}
