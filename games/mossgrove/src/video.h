#ifndef VIDEO_H
#define VIDEO_H

#include "types.h"

#define QUEUE_MAX 32
#define MAP 0x9800
#define WINDOW 0x9C00

#define FLIP_X 0x20
#define FLIP_Y 0x40
enum { PAL_HERO, PAL_RED, PAL_BLUE, PAL_GREEN, PAL_GOLD, PAL_GREY, PAL_VIOLET, PAL_BROWN };

extern u8 queue_count, palette_dirty, scroll_x, scroll_y, window_y;
extern i16 camera_x, camera_y; /* for sprites, while a room scrolls in */
extern u8 camera_moves;
extern u8 area_palette;

void video_init(void);
void lcd_off(void);
void lcd_on(void);
void tile_put(u16 address, u8 tile, u8 attribute); /* queued; waits for a frame when the queue is full */
void tile_poke(u16 address, u8 tile, u8 attribute); /* at once; only with the display off */
void sprites_begin(void);
void sprites_end(void);
/* 8 x 16 and 16 x 16 pixels, by their centre. A 16 x 16 sprite begins at a multiple of 4 tiles. */
void sprite8(u8 y, u8 x, u8 tile, u8 attribute);
void sprite16(u8 y, u8 x, u8 tile, u8 attribute);
void palettes_show(u8 darkness);
void fade_out(void);
void fade_in(void);

#endif
