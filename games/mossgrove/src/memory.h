/* The memory map. Fields of play lie where docs/reference describes them; names are this game's own.
   Declared here and placed in memory.c, so that code names symbols and never literal addresses. */
#ifndef MEMORY_H
#define MEMORY_H

#include "types.h"

extern u8 game_state; /* C2EE: 0 start, 1 loading a room, 2 in play */
extern u8 cutscene_index; /* C2EF: 0 loading, 1 in play, 3 fade, A ending, D title */
extern u8 oam[160]; /* C300: sprite shadow, copied in the vertical blank */
extern u8 busy_mode; /* C3F0: not of the map: nonzero makes each frame burn half its cycles before it halts (benchmarks) */
extern u8 queue[128]; /* C400: tile writes waiting for the vertical blank */
extern u8 keys; /* C481: buttons held */
extern u8 keys_new; /* C482: buttons that went down this frame */
extern u8 palette_mode; /* C4AB: 0 idle, else fading */
extern u8 unappraised_rings[64]; /* C5C0: FF: none */
extern u8 deaths[2]; /* C61E: BCD */
extern u16 kills; /* C620: binary, stops at 1000 */
extern u32 playtime; /* C622: frames */
extern u8 signs_read; /* C626 */
extern u8 amber_total[2]; /* C627: BCD */
extern u8 respawn_group; /* C62B */
extern u8 respawn_room; /* C62C */
extern u8 respawn_season; /* C62D */
extern u8 respawn_direction; /* C62E */
extern u8 respawn_y; /* C62F */
extern u8 respawn_x; /* C630 */
extern u8 minimap_group; /* C63A */
extern u8 minimap_room; /* C63B */
extern u8 minimap_position; /* C63C */
extern u8 minimap_floor; /* C63D */
extern u8 visited_floors[12]; /* C662 */
extern u8 small_keys[12]; /* C66E: by dungeon index */
extern u8 boss_keys[2]; /* C67A: bit dungeon index */
extern u8 compasses[2]; /* C67C */
extern u8 dungeon_maps[2]; /* C67E */
extern u8 item_b; /* C680 */
extern u8 item_a; /* C681 */
extern u8 items[16]; /* C682 */
extern u8 treasures[16]; /* C692 */
extern u8 health; /* C6A2: quarter hearts */
extern u8 max_health; /* C6A3 */
extern u8 heart_pieces; /* C6A4 */
extern u8 amber[2]; /* C6A5: BCD */
extern u8 shield_level; /* C6A9 */
extern u8 bombs; /* C6AA */
extern u8 bombs_max; /* C6AB */
extern u8 sword_level; /* C6AC */
extern u8 seasons; /* C6B0: bits 0-3, bit 7 the bell itself */
extern u8 essences; /* C6BB: bit dungeon - 1 */
extern u8 ring_box[6]; /* C6C0: FF: empty */
extern u8 global_flags[16]; /* C6CA */
extern u8 room_flags[1024]; /* C700: overworld, indoors C800, dungeons C900 and CA00 */
extern u8 text_active; /* CBA0 */
extern u8 text_mode; /* CBA1: 1: choosing */
extern u16 text_index; /* CBA2: index + 0400 */
extern u8 text_choice; /* CBA5: 0 first, 1 second */
extern u8 text_position; /* CBAC */
extern u8 text_flags; /* CBAE */
extern u8 simulated_input; /* CBC3 */
extern u8 no_collisions; /* CBCA */
extern u8 menu_type; /* CBCB */
extern u8 frame_counter; /* CC00 */
extern u8 menu_disabled; /* CC02 */
extern u8 killed_list[17]; /* CC1F */
extern u8 enemy_count; /* CC30 */
extern u8 toggle_blocks; /* CC31 */
extern u8 switches; /* CC32 */
extern u8 death_trigger; /* CC34 */
extern u8 game_over; /* CC35 */
extern u8 local_y; /* CC3D: where a pit sends back to */
extern u8 local_x; /* CC3E */
extern u8 local_direction; /* CC3F */
extern u8 hero_angle; /* CC47: FF: idle */
extern u8 hero_object; /* CC48 */
extern u8 group; /* CC49 */
extern u8 room_is_large; /* CC4A */
extern u8 loading_room; /* CC4B */
extern u8 room; /* CC4C */
extern u8 season; /* CC4E */
extern u8 active_collisions; /* CC4F */
extern u8 tileset_flags; /* CC50 */
extern u8 dungeon; /* CC55: FF: none */
extern u8 dungeon_position; /* CC56 */
extern u8 dungeon_floor; /* CC57 */
extern u8 room_properties; /* CC58 */
extern u8 warp_group; /* CC63 */
extern u8 warp_room; /* CC64 */
extern u8 warp_transition; /* CC65 */
extern u8 warp_position; /* CC66 */
extern u8 warp_pending; /* CC67 */
extern u8 hero_grab; /* CC75 */
extern u8 hero_in_air; /* CC77 */
extern u8 hero_swimming; /* CC78 */
extern u8 push_direction; /* CC80: FF: not pushing */
extern u8 push_counter; /* CC84 */
extern u8 disabled_objects; /* CCA4 */
extern u8 torches_lit; /* CCA9 */
extern u8 tile_position; /* CCB3 */
extern u8 tile_index; /* CCB4 */
extern u8 tile_type; /* CCB6 */
extern u8 on_chest; /* CCB9 */
extern u8 triggers; /* CCBA */
extern u8 block_angle; /* CCC0 */
extern u8 in_shop; /* CCEA */
extern u8 scroll_mode; /* CD00 */
extern u8 scroll_direction; /* CD02 */
extern u8 scroll_state; /* CD04 */
extern u8 collisions[176]; /* CE00 */
extern u8 layout[176]; /* CF00 */
extern struct object hero; /* D000 */
extern struct object block; /* D140 */
extern struct object me; /* C3A0: not of the map: the object whose turn it is, where code reaches it cheaply */
extern u8 fetched[80]; /* C080: not of the map: the room in play as the map has it */

void me_load(const struct object *from);
void me_store(struct object *to);

#define ENEMY(n) ((struct object *)(0xD080 + ((u16)(n) << 8)))
#define PART(n) ((struct object *)(0xD0C0 + ((u16)(n) << 8)))
#define NPC(n) ((struct object *)(0xD240 + ((u16)(n) << 8)))
#define ENEMIES 6
#define PARTS 6
#define NPCS 4

#endif
