#ifndef HARDWARE_H
#define HARDWARE_H

#include "types.h"

__sfr __at(0x00) P1;
__sfr __at(0x0F) IF;
__sfr __at(0x26) NR52;
__sfr __at(0x40) LCDC;
__sfr __at(0x42) SCY;
__sfr __at(0x43) SCX;
__sfr __at(0x44) LY;
__sfr __at(0x4A) WY;
__sfr __at(0x4B) WX;
__sfr __at(0x4F) VBK;
__sfr __at(0xFF) IE;

#define LCD_ON 0xE7 /* on, window map 9C00, window on, tiles from 9000, map 9800, sprites 8 x 16 and on, background on */

#endif
