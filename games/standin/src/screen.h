#ifndef SCREEN_H
#define SCREEN_H

#include "memory.h"

void screen_begin(void);
void frame(void);
void picture(u8 shade);
void draw_room(void);
void draw_later(u8 at);

#endif
