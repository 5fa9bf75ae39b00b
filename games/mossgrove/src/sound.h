#ifndef SOUND_H
#define SOUND_H

#include "types.h"

enum { SOUND_SWING, SOUND_HIT, SOUND_HURT, SOUND_PICK, SOUND_TREASURE, SOUND_OPEN, SOUND_FALL, SOUND_BELL, SOUND_CUT };

void sound_init(void);
void sound(u8 effect);

#endif
