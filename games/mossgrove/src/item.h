#ifndef ITEM_H
#define ITEM_H

#include "types.h"

u8 has_treasure(u8 flag);
void give(u8 treasure, u8 amount);         /* count it, flag it, show it */
void amber_add(u8 amount);                 /* and to the total ever found */
u8 amber_pay(u8 price);                    /* 0: not enough */
void heal(u8 quarters);
void treasure_draw(u8 y, u8 x, u8 treasure); /* its picture */
void bcd_count(u8 *bcd);                   /* add one, to 9999 */

#endif
