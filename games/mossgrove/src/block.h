#ifndef BLOCK_H
#define BLOCK_H

#include "types.h"

void block_push(u8 position, u8 direction);
void block_update(void);
void block_draw(void);
u8 block_on_plate(void);
u8 door_bit(u8 position); /* the room flag of the door there */
void door_unlock(u8 position, u8 great);

#endif
