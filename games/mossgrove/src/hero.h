#ifndef HERO_H
#define HERO_H

#include "types.h"

void hero_arrive(void); /* remember where a fall sends back to */
void hero_update(void);
void hero_draw(void);
void hero_hurt(u8 damage, u8 from_y, u8 from_x);
u8 hero_shields(u8 shot_y, u8 shot_x); /* 1: it was caught */

#endif
