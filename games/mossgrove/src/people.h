#ifndef PEOPLE_H
#define PEOPLE_H

#include "types.h"

void people_load(u8 kind, u8 position, u8 ware);
void people_draw(void);
u8 people_talk(u8 position); /* 1: someone was there */
void people_light(void);     /* a light has been found: what follows */

#endif
