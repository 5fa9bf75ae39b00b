/* Things of a room: one place that loads, moves and draws all of them, and the room's riddle. */
#include "things.h"
#include "block.h"
#include "enemy.h"
#include "frame.h"
#include "hero.h"
#include "hud.h"
#include "item.h"
#include "memory.h"
#include "part.h"
#include "people.h"
#include "room.h"
#include "sound.h"
#include "text.h"
#include "video.h"

#define OPENED_PATH 0x40
#define TYPE_STAIRS 6

u8 shown_treasure;
static u8 solved, torches_needed, closing, items_here;

u8 near(u8 a, u8 b, u8 most) {
    return (a > b ? a - b : b - a) < most;
}

static u8 hero_near(u8 position, u8 most) {
    return near(hero.yh, (position & 0xF0) + 8, most) && near(hero.xh, (u8)(position << 4) + 8, most);
}

static const struct thing *thing_at(u8 kind, u8 position) {
    const struct thing *t = here->things;
    u8 i;
    for (i = here->count; i; i--, t++)
        if (t->kind == kind && t->position == position) return t;
    return 0;
}

void things_clear(void) {
    u8 i;
    for (i = 0; i < ENEMIES; i++) ENEMY(i)->enabled = 0;
    for (i = 0; i < PARTS; i++) PART(i)->enabled = 0;
    for (i = 0; i < NPCS; i++) NPC(i)->enabled = 0;
    block.enabled = block.subid = 0;
    enemy_count = triggers = torches_lit = on_chest = block_angle = 0;
}

/* Quietly: the picture is drawn later. */
static void place(u8 position, u8 tile) {
    layout[position] = tile;
    collisions[position] = metatile_solid[tile];
}

/* Locks open by the flag of their side, shutters when the riddle is solved. */
static void place_doors(void) {
    u8 position, tile;
    for (position = 0; position < 0x80; position++) {
        tile = layout[position];
        if ((tile == TILE_LOCK || tile == TILE_GREAT_LOCK) && *flags & door_bit(position))
            place(position, TILE_PASSAGE);
        else if (tile == TILE_SHUTTER && (solved || hero_near(position, 24)))
            place(position, TILE_PASSAGE);
        else if (tile == TILE_THORNS && *flags & OPENED_PATH)
            place(position, TILE_FLOOR);
        else if (tile == TILE_TORCH_OFF && solved)
            place(position, TILE_TORCH_ON);
        else if (tile == TILE_STUMP_BLADE && *flags & FLAG_TAKEN)
            place(position, TILE_STUMP);
        else if (tile == TILE_BUTTON && triggers)
            place(position, TILE_BUTTON_DOWN);
    }
}

void things_place(void) {
    const struct thing *t = here->things;
    u8 i;
    place_doors();
    for (i = here->count; i; i--, t++) {
        if (t->kind == THING_CHEST && solved) place(t->position, *flags & FLAG_TAKEN ? TILE_CHEST_OPEN : TILE_CHEST);
        if (t->kind == THING_NPC) collisions[t->position] = 0x0F;
    }
}

void things_load(void) {
    const struct thing *t = here->things;
    u8 i, number = 0, position;
    closing = items_here = 0;
    solved = here->trigger == TRIGGER_NONE || *flags & (FLAG_TAKEN | FLAG_DONE);
    torches_needed = 0;
    for (position = 0; position < 0x80; position++)
        if (layout[position] == TILE_TORCH_OFF) torches_needed++;
    if (solved) torches_lit = torches_needed;
    if (solved && here->trigger == TRIGGER_BUTTON) triggers = 1;
    for (i = here->count; i; i--, t++) {
        if (t->kind == THING_ENEMY) enemy_load(number++, t->a, t->position);
        if (t->kind == THING_NPC) people_load(t->a, t->position, t->b);
        if (t->kind == THING_BLOCK) place(t->position, TILE_BLOCK);
        if (t->kind == THING_ITEM) items_here = 1;
    }
    things_place();
    in_shop = here->group == 3 && here->number == 1 ? 2 : 0;
}

void things_arrive(void) {
    hero_arrive();
    closing = here->trigger == TRIGGER_BOSS && !solved;
}

/* Behind a hero who has come to fight, the door falls shut. */
static void close_doors(void) {
    const u8 *from = fetched;
    u8 row, column, position;
    for (row = 0; row < 8; row++)
        for (column = 0; column < 10; column++, from++) {
            position = (row << 4) | column;
            if (*from != TILE_SHUTTER || layout[position] == TILE_SHUTTER) continue;
            if (hero_near(position, 20)) return;
        }
    from = fetched;
    for (row = 0; row < 8; row++)
        for (column = 0; column < 10; column++, from++)
            if (*from == TILE_SHUTTER) tile_set((row << 4) | column, TILE_SHUTTER);
    closing = 0;
    sound(SOUND_OPEN);
}

void solve(void) {
    const struct thing *t = here->things;
    u8 i, position;
    for (i = here->count; i; i--, t++)
        if (t->kind == THING_CHEST && hero_near(t->position, 15)) return; /* once the hero has stepped aside */
    solved = 1;
    closing = 0;
    if (here->trigger != TRIGGER_ENEMIES) *flags |= FLAG_DONE;
    sound(SOUND_OPEN);
    for (position = 0; position < 0x80; position++)
        if (layout[position] == TILE_SHUTTER) tile_set(position, TILE_PASSAGE);
    for (i = here->count, t = here->things; i; i--, t++)
        if (t->kind == THING_CHEST) tile_set(t->position, TILE_CHEST);
}

static void riddle(void) {
    if (closing) close_doors();
    if (solved) return;
    switch (here->trigger) {
    case TRIGGER_ENEMIES:
    case TRIGGER_BOSS:
        if (!enemy_count) solve();
        break;
    case TRIGGER_BUTTON:
        if (triggers & 1) solve();
        break;
    case TRIGGER_TORCHES:
        if (torches_lit == torches_needed) solve();
        break;
    case TRIGGER_BLOCK:
        if (block_on_plate()) solve();
    }
}

/* Things that are taken by touch. */
static void touch_items(void) {
    const struct thing *t = here->things;
    u8 i, flat;
    if (!items_here || *flags & FLAG_TAKEN || hero.state != 1) return;
    for (i = here->count; i; i--, t++) {
        if (t->kind != THING_ITEM) continue;
        if (!solved || !hero_near(t->position, 16)) continue;
        flat = near(hero.xh, (u8)(t->position << 4) + 8, 9) || near(hero.yh, (t->position & 0xF0) + 8, 9);
        if (!flat) continue;
        if (t->a >= TREASURE_SUMMER && !has_treasure(ITEM_BELL)) continue;
        if (layout[t->position] == TILE_STUMP_BLADE) tile_set(t->position, TILE_STUMP);
        *flags |= FLAG_TAKEN;
        give(t->a, t->b);
        if (t->a == TREASURE_ESSENCE) people_light();
        return;
    }
}

void things_update(void) {
    hero_update();
    block_update();
    enemies_update();
    parts_update();
    touch_items();
    riddle();
    hud_update();
}

static void items_draw(void) {
    const struct thing *t = here->things;
    u8 i;
    if (!items_here || *flags & FLAG_TAKEN || !solved) return;
    for (i = here->count; i; i--, t++)
        if (t->kind == THING_ITEM && metatile_solid[layout[t->position]] == 0)
            treasure_draw((t->position & 0xF0) + 6 + (playtime & 0x10 ? 1 : 0), (u8)(t->position << 4) + 8, t->a);
}

void things_draw(void) {
    hero_draw();
    enemies_draw();
    parts_draw();
    people_draw();
    block_draw();
    items_draw();
}

void idle(void) {
    things_draw();
    hud_update();
    frame();
}

static u8 open_chest(const struct thing *t) {
    on_chest = 1;
    no_collisions = 1;
    *flags |= FLAG_TAKEN;
    tile_set(t->position, TILE_CHEST_OPEN);
    sound(SOUND_OPEN);
    give(t->a, t->b);
    on_chest = 0;
    no_collisions = 0;
    return 1;
}

u8 things_use(u8 position) {
    const struct thing *t;
    u8 message;
    if (layout[position] == TILE_CHEST && (t = thing_at(THING_CHEST, position))) return open_chest(t);
    if ((t = thing_at(THING_SIGN, position))) {
        if (signs_read != 0xFF) signs_read++;
        say(t->a);
        return 1;
    }
    if (layout[position] == TILE_LOCK) message = TEXT_LOCKED;
    else if (layout[position] == TILE_GREAT_LOCK) message = TEXT_GREAT_LOCKED;
    else return people_talk(position);
    say(message);
    return 1;
}

void things_bump(u8 position) {
    u8 tile = layout[position];
    if (tile == TILE_BLOCK) block_push(position, hero.direction);
    if (tile == TILE_LOCK) door_unlock(position, 0);
    if (tile == TILE_GREAT_LOCK) door_unlock(position, 1);
}

void things_step(u8 position) {
    const struct thing *t;
    if (layout[position] == TILE_BUTTON) {
        triggers |= 1;
        tile_set(position, TILE_BUTTON_DOWN);
        sound(SOUND_OPEN);
    }
    if (tile_type == TYPE_STAIRS && (t = thing_at(THING_WARP, position))) room_warp(&warps[t->a]);
}

void things_cut(u8 position) {
    u8 tile = layout[position];
    u8 y = (position & 0xF0) + 8, x = (u8)(position << 4) + 8;
    if (tile == TILE_BUSH) {
        tile_set(position, OUTDOORS ? TILE_GRASS : TILE_FLOOR);
        part_add(PART_PUFF, y, x);
        part_drop(y, x);
        sound(SOUND_CUT);
    } else if (tile == TILE_TORCH_OFF) {
        tile_set(position, TILE_TORCH_ON);
        torches_lit++;
        sound(SOUND_PICK);
    } else if (tile == TILE_THORNS && sword_level > 1) {
        *flags |= OPENED_PATH;
        tile_set(position, TILE_FLOOR);
        part_add(PART_PUFF, y, x);
        sound(SOUND_CUT);
    }
}
