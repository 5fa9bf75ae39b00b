/* Rooms: what metatiles are, how a room comes into memory, and what it asks for. */
#include "room.h"
#include "screen.h"

static const u8 strips[16] = {0x00, 0xC3, 0x03, 0xC0, 0x00, 0xC3, 0xC3, 0x00,
                              0x00, 0xC3, 0x03, 0xC0, 0xC0, 0xC1, 0xFF, 0x00};

u8 kind_at(u8 at) { return kinds[mode][layout[at]]; }

u8 inside(u8 at) {
    u8 row = at >> 4, column = at & 15;
    return large ? row < 11 && column < 15 : row < 8 && column < 10;
}

/* Whether the middle of a metatile lets the hero, or a block, through. */
u8 passable(u8 collision) {
    if (collision < 0x10) return collision == 0;
    if (collision < 0x20) return (strips[collision & 15] & 0x3C) == 0;
    return 0;
}

u8 solid_at(u8 y, u8 x) {
    u8 at = POS(y, x), collision, strip;
    if (!inside(at)) return 1;
    if (at == on_chest) return 0;
    collision = collisions[at];
    if (collision == 0) return 0;
    if (collision < 0x10) return collision & (8 >> ((y & 8 ? 2 : 0) + (x & 8 ? 1 : 0)));
    if (collision >= 0x20) return 1;
    strip = (collision & 8 ? y : x) & 15;
    return strips[collision & 15] & (0x80 >> (strip >> 1));
}

void put(u8 at, u8 tile, u8 collision) {
    layout[at] = tile;
    collisions[at] = collision;
    draw_later(at);
}

/* The flags of the room. */
u8 *flags(void) {
    u16 page = 0;
    if (group == 1 || group == 2 || group == 3) page = 0x100;
    if (group == 4 || group == 6) page = 0x200;
    if (group == 5 || group == 7) page = 0x300;
    return &room_flags[page + room];
}

static void clear_enemies(void) {
    u8 n;
    for (n = 0; n < ENEMIES; n++) ENEMY(n)->enabled = 0;
    enemy_count = 0;
}

static void place_enemies(u8 count) {
    struct object *enemy;
    u8 n, at = 0x12;
    for (n = 0; n < count; n++) {
        do at += 3; while (!inside(at) || !passable(collisions[at]) || kind_at(at) != FLOOR);
        enemy = ENEMY(n);
        enemy->enabled = 1;
        enemy->id = 0x10;
        enemy->y = (at & 0xF0) + 8;
        enemy->x = (at << 4) + 8;
        enemy->health = 2;
        enemy_count++;
    }
}

/* Load a room of the ROM; 0 where it has none such. */
u8 enter(u8 to_group, u8 to_room) {
    const u8 *data;
    const struct head *head;
    u8 n, row, column, at;
    for (n = 0; n < room_count; n++) {
        head = (const struct head *)rooms[n];
        if (head->group == to_group && head->room == to_room) break;
    }
    if (n == room_count) return 0;
    group = to_group;
    room = loading_room = to_room;
    mode = head->mode;
    dungeon = head->dungeon;
    large = head->large;
    season = head->season;
    puzzle = head->puzzle;
    puzzle_at = head->puzzle_at;
    room_known = 1;
    data = (const u8 *)head + sizeof(struct head);
    for (at = 0; at < 176; at++) collisions[at] = 0xFF;
    for (row = 0; row < (large ? 11 : 8); row++)
        for (column = 0; column < (large ? 15 : 10); column++) {
            at = row << 4 | column;
            layout[at] = *data++;
            collisions[at] = usual[mode][layout[at]];
        }
    clear_enemies();
    if (!(*flags() & 0xA0)) place_enemies(head->enemies);
    *flags() |= 0x10;
    begin_puzzle();
    draw_room();
    return 1;
}

void begin_puzzle(void) {
    puzzle_state = triggers = torches = 0;
    if (*flags() & 0xA0) puzzle = 0;
    if (puzzle & BLOCK_FREED) {
        puzzle_tile = layout[puzzle_at];
        layout[puzzle_at] = 0x1D;
        enemy_count++;
    }
}

static void open_up(void) {
    if (puzzle & (CHEST_BEATEN | CHEST_BUTTON)) {
        put(puzzle_at, 0xF1, 0x0F);
        if (POS(hero.y + 5, hero.x) == puzzle_at) on_chest = puzzle_at;
    }
    if (puzzle & KEY_BEATEN) {
        small_keys[dungeon & 15]++;
        *flags() |= 0x20;
    }
    if (puzzle & FLAG_BEATEN) *flags() |= 0x80;
    if (puzzle & (DOOR_BEATEN | DOOR_TORCHES | DOOR_BUTTON) && layout[puzzle_at] == SHUTTER) put(puzzle_at, 0xA0, 0);
    puzzle = 0;
}

/* Once a frame: has the room been solved? */
void solve_puzzle(void) {
    if (puzzle & BLOCK_FREED) {
        if (puzzle_state == 0 && enemy_count <= 1) {
            put(puzzle_at, puzzle_tile, 0x0F);
            puzzle_state = 1;
        } else if (puzzle_state == 1 && layout[puzzle_at] != puzzle_tile) {
            puzzle_state = 30;
        } else if (puzzle_state > 1 && --puzzle_state == 1) {
            enemy_count = 0;
            puzzle &= ~BLOCK_FREED;
            open_up();
        }
        return;
    }
    if (puzzle & (CHEST_BEATEN | KEY_BEATEN | FLAG_BEATEN | DOOR_BEATEN) && enemy_count == 0) open_up();
    if (puzzle & (CHEST_BUTTON | DOOR_BUTTON) && triggers) open_up();
    if (puzzle & DOOR_TORCHES && torches >= 2) open_up();
}
