#ifndef ROOM_H
#define ROOM_H

#include "memory.h"

/* What a metatile is, by mode; written by build.py from facts.py. */
enum {
    FLOOR, PLAIN, HOLE, WATER, LAVA, SPIKE, WARP, LADDER, CLIFF_UP, CLIFF_RIGHT, CLIFF_DOWN, CLIFF_LEFT,
    BLOCK, BLOCK_UP, BLOCK_RIGHT, BLOCK_DOWN, BLOCK_LEFT, ONCE, ICE, POT, TORCH, BUTTON, SWITCH, CHEST, SIGN,
    LOCK, BOSS_LOCK
};
extern const u8 kinds[6][256];
extern const u8 usual[6][256];

/* A room of the ROM: 11 bytes of head, then its metatiles row by row. */
struct head {
    u8 group, room, mode, dungeon, large, puzzle, puzzle_at, enemies, y, x, season;
};
extern const u8 room_count;
extern const u8 *const rooms[];

/* What a room asks for (C3E0). */
#define BLOCK_FREED 0x01    /* the block at puzzle_at can be pushed once nothing else counts as an enemy */
#define CHEST_BEATEN 0x02   /* a chest appears once no enemy is left */
#define KEY_BEATEN 0x04     /* a small key */
#define FLAG_BEATEN 0x08    /* room flag 80 */
#define CHEST_BUTTON 0x10   /* a chest appears once a button is pressed */
#define DOOR_BEATEN 0x20    /* the shutter at puzzle_at opens */
#define DOOR_TORCHES 0x40   /* it opens once two torches are lit */
#define DOOR_BUTTON 0x80

#define SHUTTER 0x78
#define POS(y, x) (((y) & 0xF0) | ((x) >> 4))

u8 kind_at(u8 at);
u8 inside(u8 at);
u8 passable(u8 collision);
u8 solid_at(u8 y, u8 x);
void put(u8 at, u8 tile, u8 collision);
u8 *flags(void);
u8 enter(u8 to_group, u8 to_room);
void begin_puzzle(void);
void solve_puzzle(void);

#endif
