#ifndef FRAME_H
#define FRAME_H

#include "types.h"

extern u8 frame_ready, frame_done;

void frame(void); /* end this frame: show what was drawn, wait for the next, read the buttons */
void wait(u8 frames);
u8 random(void);

#endif
