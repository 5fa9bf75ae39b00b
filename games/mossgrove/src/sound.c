/* Short effects. The game never waits on a sound register. */
#include "sound.h"

__sfr __at(0x10) NR10;
__sfr __at(0x11) NR11;
__sfr __at(0x12) NR12;
__sfr __at(0x13) NR13;
__sfr __at(0x14) NR14;
__sfr __at(0x20) NR41;
__sfr __at(0x21) NR42;
__sfr __at(0x22) NR43;
__sfr __at(0x23) NR44;
__sfr __at(0x24) NR50;
__sfr __at(0x25) NR51;
__sfr __at(0x26) NR52;

struct effect { u8 noise, sweep, duty, envelope, low, high; };

static const struct effect effects[] = {
    {1, 0, 0, 0x61, 0x21, 0},         /* swing */
    {1, 0, 0, 0xA2, 0x43, 0},         /* hit */
    {0, 0x1B, 0x40, 0xC2, 0x00, 6},   /* hurt */
    {0, 0x15, 0x80, 0x91, 0x40, 7},   /* pick */
    {0, 0x26, 0x80, 0xC5, 0x80, 6},   /* treasure */
    {1, 0, 0, 0xB3, 0x61, 0},         /* open */
    {0, 0x3E, 0x80, 0xC4, 0x00, 7},   /* fall */
    {0, 0x00, 0x80, 0xF5, 0xC0, 7},   /* bell */
    {1, 0, 0, 0x71, 0x11, 0},         /* cut */
};

void sound_init(void) {
    NR52 = 0x80;
    NR51 = 0xFF;
    NR50 = 0x44;
}

void sound(u8 effect) {
    const struct effect *e = &effects[effect];
    if (e->noise) {
        NR41 = 0x20;
        NR42 = e->envelope;
        NR43 = e->low;
        NR44 = 0x80;
    } else {
        NR10 = e->sweep;
        NR11 = e->duty;
        NR12 = e->envelope;
        NR13 = e->low;
        NR14 = 0x80 | e->high;
    }
}
