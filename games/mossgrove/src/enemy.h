#ifndef ENEMY_H
#define ENEMY_H

#include "types.h"

void enemy_load(u8 number, u8 kind, u8 position);
void enemies_update(void);
void enemies_draw(void);
void enemies_strike(u8 y, u8 x, u8 direction); /* the blade is at (y, x) */
void enemies_forget(void);                     /* the fallen of recent rooms come back */

#endif
