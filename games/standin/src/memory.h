/* The memory map: fields that the profile of Oracle of Seasons reads, at their addresses, and a few of our own.
   Declared here and placed in memory.c, so that code names symbols and never literal addresses. */
#ifndef MEMORY_H
#define MEMORY_H

#include "types.h"

extern volatile u8 frames;
extern u8 puzzle;          /* C3E0, our own: what the room asks for, see room.h */
extern u8 puzzle_at;       /* C3E1: where the block stands or the chest appears */
extern u8 puzzle_tile;     /* C3E2: what stands there once enemies are beaten */
extern u8 puzzle_state;    /* C3E3 */
extern u8 room_known;      /* C3E4: 0: the room was written into memory, and the ROM has none such */
extern u8 asked_group;     /* C3E5: group + 1 of a room to go to, for tests; 0: none */
extern u8 asked_room, asked_y, asked_x;
extern u8 game_state, cutscene;
extern u8 keys, keys_new;
extern u8 palette_mode;
extern u8 small_keys[12], boss_keys[2];
extern u8 item_b, item_a;
extern u8 treasures[16];
extern u8 health, max_health, sword_level, seeds[5];
extern u8 global_flags[16], room_flags[1024];
extern u8 text_active, text_mode, text_index[2], text_choice, menu;
extern u8 enemy_count, switches, local_y, local_x, hero_object, group, large, loading_room, room;
extern u8 season, mode, dungeon, warp_pending, in_air, swimming, push_way, push_count, disabled, torches;
extern u8 on_chest;            /* where the chest is that appeared around the hero, until he has walked off it; 0 none */
extern u8 tile_at, tile_now, triggers, block_angle, scroll_mode, scroll_way;
extern u8 collisions[176], layout[176];
extern struct object hero, block;

#define ENEMY(n) ((struct object *)(0xD080 + ((u16)(n) << 8)))
#define ENEMIES 16

enum { UP, RIGHT, DOWN, LEFT };
enum { OVERWORLD, SUBROSIA, MAKU, INDOORS, DUNGEON, SIDE };
#define KEY_A 0x01
#define KEY_B 0x02
#define KEY_START 0x08
#define KEY_RIGHT 0x10
#define KEY_LEFT 0x20
#define KEY_UP 0x40
#define KEY_DOWN 0x80

#endif
