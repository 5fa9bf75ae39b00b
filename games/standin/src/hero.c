/* The hero: walking, pushing, jumping, falling, and what A and B do. */
#include "hero.h"
#include "item.h"
#include "room.h"
#include "scene.h"

static const i8 down[4] = {-1, 0, 1, 0}, right[4] = {0, 1, 0, -1};
static const i8 ahead_y[4] = {-4, 2, 8, 2}, ahead_x[4] = {0, 4, 0, -5};
static const u8 step[4] = {0xF0, 0x01, 0x10, 0xFF};

void hero_begin(u8 y, u8 x) {
    hero.enabled = hero.state = 1;
    hero.y = local_y = y;
    hero.x = local_x = x;
    hero.z = in_air = 0;
    push_way = 0xFF;
    push_count = 0;
    hero_object = 0xD0;
}

/* Which of the two corners in front are solid: bit 0 the upper or left one, bit 1 the other. */
static u8 corners(u8 way) {
    u8 y = hero.y + ahead_y[way], x = hero.x + ahead_x[way], found = 0;
    if (way == UP || way == DOWN) {
        if (solid_at(y, x - 4)) found = 1;
        if (solid_at(y, x + 3)) found |= 2;
    } else {
        if (solid_at(hero.y - 3, x)) found = 1;
        if (solid_at(hero.y + 7, x)) found |= 2;
    }
    return found;
}

/* Start a push of what stands ahead, if it gives way. */
static void push(u8 at, u8 way) {
    u8 kind = kind_at(at), to = at + step[way], target;
    if (block.enabled) return;
    if (mode == OVERWORLD ? group > 1 : group < 3 || group > 5) return;
    if (kind >= BLOCK_UP && kind <= BLOCK_LEFT ? kind - BLOCK_UP != way
        : kind != BLOCK && kind != ONCE && kind != ICE && kind != POT) return;
    if (kind == POT && !(treasures[2] & 0x40)) return;
    target = kind_at(to);
    if (!inside(to) || !passable(collisions[to]) || target == HOLE || target == WATER || target == LAVA) return;
    if (target == SPIKE || target == WARP) return;
    block.enabled = 1;
    block.id = 0x14;
    block.subid = layout[at];
    block.var03 = to;
    block.direction = way;
    block.counter1 = 32;
    block_angle = 0x80 | way << 3;
    put(at, kind == ICE ? 0x8C : kind == ONCE && mode == OVERWORLD ? 0x04 : layout[at] == 0x13 ? 0x0D : 0xA0, 0);
    collisions[to] = 0x0F;
}

/* A block under way comes to rest; ice goes on. */
void block_turn(void) {
    u8 to, kind;
    if (!block.enabled || --block.counter1) return;
    to = block.var03 + step[block.direction];
    kind = kind_at(to);
    if (block.subid == 0x2F && inside(to) && passable(collisions[to]) && (kind == FLOOR || kind == BUTTON)) {
        collisions[block.var03] = 0;
        collisions[to] = 0x0F;
        block.var03 = to;
        block.counter1 = 8;
        return;
    }
    if (kind_at(block.var03) == BUTTON) triggers |= 1;
    kind = kinds[mode][block.subid];
    if (mode == OVERWORLD) block.subid = 0x9C;
    else if (kind == POT) block.subid = 0x10;
    else if (kind != BLOCK && kind != ICE) block.subid = 0x1D;
    put(block.var03, block.subid, 0x0F);
    block.enabled = 0;
}

/* The hero leans against something for a while. */
static void lean(u8 way) {
    u8 y = hero.y + ahead_y[way] + down[way] * 2, x = hero.x + ahead_x[way] + right[way] * 2, at = POS(y, x), kind;
    push_way = way;
    push_count++;
    if (push_count < 16 || !inside(at)) return;
    kind = kind_at(at);
    if (kind == CLIFF_UP + way) {
        hero.state = 0x12;
        in_air = 1;
    } else if (kind == LOCK && small_keys[dungeon & 15]) {
        small_keys[dungeon & 15]--;
        *flags() |= layout[at] == 0x1E ? 0x80 : 1 << way;
        put(at, 0xA0, 0);
    } else if (kind == BOSS_LOCK && boss_keys[dungeon >> 3] & 1 << (dungeon & 7)) {
        *flags() |= 1 << way;
        put(at, 0xA0, 0);
    } else {
        push(at, way);
    }
    push_count = 0;
}

/* Over the edge of the room: 1 where another one lies there. */
static u8 leaves(u8 way) {
    u8 height = large ? 176 : 128, width = large ? 240 : 160;
    if (way == UP ? hero.y > 4 : way == DOWN ? hero.y < height - 9 : way == LEFT ? hero.x > 5 : hero.x < width - 5)
        return 0;
    return scroll_to(way);
}

static void walk(u8 way) {
    u8 found, sideways = way == LEFT || way == RIGHT;
    hero.direction = way;
    if (leaves(way)) return;
    if (mode == SIDE && way == UP && kind_at(POS(hero.y + 5, hero.x)) != LADDER) return;
    found = corners(way);
    if (found == 3) {
        lean(way);
        return;
    }
    push_way = 0xFF;
    push_count = 0;
    if (found == 0) {
        hero.y += down[way];
        hero.x += right[way];
    } else if (sideways) {
        hero.y += found == 1 ? 1 : -1;
    } else {
        hero.x += found == 1 ? 1 : -1;
    }
}

/* Down the face of the cliff, to the middle of the first metatile that is not solid. */
static void jump(void) {
    u8 way = hero.direction, at, middle;
    hero.y += down[way] * 2;
    hero.x += right[way] * 2;
    at = POS(hero.y, hero.x);
    if (!inside(at)) {
        hero_begin(local_y, local_x);
        return;
    }
    middle = (way == LEFT || way == RIGHT ? hero.x : hero.y) & 15;
    if (kind_at(at) == CLIFF_UP + way || !passable(collisions[at]) || middle < 7 || middle > 9) return;
    hero.state = 1;
    in_air = 0;
}

static void fall(void) {
    u8 at = POS(hero.y + 5, hero.x), below = POS(hero.y + 8, hero.x);
    if (mode != SIDE || kind_at(at) == LADDER || kind_at(below) == LADDER) return;
    if (!solid_at(hero.y + 8, hero.x - 4) && !solid_at(hero.y + 8, hero.x + 3)) hero.y++;
}

/* What is underfoot. */
static void feel(void) {
    u8 at = POS(hero.y + 5, hero.x), kind = kind_at(at);
    tile_at = at;
    tile_now = layout[at];
    if (at != on_chest) on_chest = 0;
    swimming = 0;
    if (kind == WATER && treasures[5] & 0x40) swimming = 1;
    else if (kind == HOLE || kind == WATER || kind == LAVA) {
        hero.state = 2;
        hero.counter1 = 30;
    } else if (kind == SPIKE) hurt(2);
    else if (kind == BUTTON) {
        put(at, 0x0D, 0);
        triggers |= 1;
    } else if (kind == WARP) warp();
}

void hero_turn(void) {
    if (hero.invincible) hero.invincible--;
    if (hero.state == 2) {
        if (--hero.counter1) return;
        hurt(2);
        hero_begin(local_y, local_x);
        return;
    }
    if (hero.state == 0x12) {
        jump();
        return;
    }
    if (keys & KEY_UP) walk(UP);
    else if (keys & KEY_DOWN) walk(DOWN);
    else if (keys & KEY_LEFT) walk(LEFT);
    else if (keys & KEY_RIGHT) walk(RIGHT);
    else {
        push_way = 0xFF;
        push_count = 0;
    }
    if (scroll_mode != 1) return;
    fall();
    feel();
    if (keys_new & KEY_A && !look_ahead()) use(item_a);
    else if (keys_new & KEY_B) use(item_b);
}
