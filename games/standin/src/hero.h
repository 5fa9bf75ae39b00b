#ifndef HERO_H
#define HERO_H

#include "memory.h"

void hero_begin(u8 y, u8 x);
void hero_turn(void);
void block_turn(void);

#endif
