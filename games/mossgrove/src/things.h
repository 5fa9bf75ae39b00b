#ifndef THINGS_H
#define THINGS_H

#include "types.h"

void things_load(void);   /* what the room's list names */
void things_clear(void);  /* nothing of the old room is left */
void things_arrive(void); /* the hero has come in and play begins */
void things_update(void);
void things_draw(void);

#endif
