#ifndef TEXT_H
#define TEXT_H

#include "types.h"

void say(u8 message); /* returns when the player has read it */
u8 ask(u8 message);   /* 1: the first answer */
void box_clear(void); /* no words in it */
void box_draw(void);  /* the empty text box, below the status line in the window */

#endif
