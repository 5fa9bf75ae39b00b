#ifndef THINGS_H
#define THINGS_H

#include "assets.h"
#include "types.h"

extern u8 shown_treasure; /* what the hero holds up in state 4 */

void things_load(void);   /* what the room's list names */
void things_place(void);  /* the tiles among them, over a layout fresh from the map */
void things_clear(void);  /* nothing of the old room is left */
void things_arrive(void); /* the hero has come in and play begins */
void things_update(void);
void things_draw(void);
void idle(void);          /* a frame in which nothing moves */
u8 things_use(u8 position);  /* A was pressed before it: 1 if that meant something */
void things_bump(u8 position);   /* the hero has pushed against it for a while */
void things_step(u8 position);   /* the hero stands on it */
void things_cut(u8 position);    /* the blade goes through it */
void solve(void);                /* the room's riddle is solved */
u8 near(u8 a, u8 b, u8 most);    /* |a - b| < most */

#endif
