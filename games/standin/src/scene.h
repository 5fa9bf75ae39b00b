#ifndef SCENE_H
#define SCENE_H

#include "memory.h"

void title(void);
void say(u8 text);
void text_turn(void);
u8 scroll_to(u8 way);
void scene_turn(void);
void warp(void);

#endif
