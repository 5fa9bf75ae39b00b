#ifndef HERO_H
#define HERO_H

#include "types.h"

void hero_arrive(void); /* remember where a fall sends back to */
void hero_update(void);
void hero_draw(void);


#endif
