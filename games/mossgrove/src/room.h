#ifndef ROOM_H
#define ROOM_H

#include "assets.h"
#include "types.h"

/* Bits of a room's flags. */
#define FLAG_DOOR_UP 0x01
#define FLAG_VISITED 0x10
#define FLAG_TAKEN 0x20
#define FLAG_DONE 0x80

enum { SPRING, SUMMER, AUTUMN, WINTER };

#define NO_DUNGEON 0xFF
#define OUTDOORS (group == 0)

extern const struct room *here; /* the room in play */
extern u8 *flags;               /* its flags */

u8 *room_flags_of(u8 in_group, u8 number);
void room_enter(u8 in_group, u8 number);  /* load layout, collisions, things; nothing is drawn */
void room_build(void);                    /* layout and collisions anew, as the season and the flags have them */
void room_scroll(u8 direction);           /* walk over into the neighbour */
void room_warp(const struct warp *to);    /* fade over to somewhere else */
void room_reseason(void);                 /* draw it in the season it has become */
void room_picture(void);                  /* the title's layout, which is no room of the game */
void room_show(void);                     /* display off, draw, display on, fade in */
u8 room_has_neighbour(u8 direction);
void tile_set(u8 position, u8 tile);      /* change a metatile in layout, collisions and picture */
u8 solid(u8 y, u8 x);

#endif
