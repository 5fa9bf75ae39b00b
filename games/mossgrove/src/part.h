#ifndef PART_H
#define PART_H

#include "types.h"

enum { PART_NONE, PART_HEART, PART_AMBER, PART_CLUSTER, PART_SPIT, PART_PUFF };

struct object *part_add(u8 kind, u8 y, u8 x);        /* 0: no slot is free */
void part_shoot(u8 y, u8 x, u8 down, u8 right);      /* a spit on its way */
void part_drop(u8 y, u8 x);                          /* perhaps something to pick up */
void parts_update(void);
void parts_draw(void);

#endif
