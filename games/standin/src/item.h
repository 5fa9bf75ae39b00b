#ifndef ITEM_H
#define ITEM_H

#include "memory.h"

void use(u8 item);
u8 look_ahead(void);
void hurt(u8 quarters);
void enemies_turn(void);

#endif
