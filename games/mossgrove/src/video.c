/* Picture: tile queue, sprites, palettes. The vertical blank in crt0.s does the transfers. */
#include "video.h"
#include "assets.h"
#include "frame.h"
#include "hardware.h"
#include "memory.h"

#define BLACK 5
#define WHITE 6

u8 queue_count, palette_dirty, scroll_x, scroll_y, window_y;
i16 camera_x, camera_y;
u8 area_palette;
u8 sprites_used, camera_moves;
static u8 sprites_before;

__at(0xC000) static u16 palettes[64];

void video_init(void) {
    while (LY < 144) {
    }
    LCDC = 0;
    VBK = 0;
    unpack((u8 *)0x8000, packed_sprites);
    unpack((u8 *)0x9000, packed_screen);
    /* Tiles 0-127 of the ground lie at 9000, 128-255 at 8800; all of it is in bank 1. */
    VBK = 1;
    unpack((u8 *)0x9000, packed_ground_1);
    unpack((u8 *)0x8800, packed_ground_2);
    VBK = 0;
    WX = 7;
    window_y = 144;
    sprites_before = 40;
    unpack_rooms();
}

void lcd_off(void) {
    frame();
    while (LY < 144) {
    }
    LCDC = 0;
}

void lcd_on(void) {
    SCX = scroll_x;
    SCY = scroll_y;
    WY = window_y;
    LCDC = LCD_ON;
}

void tile_put(u16 address, u8 tile, u8 attribute) {
    u8 *entry;
    if (queue_count == QUEUE_MAX) frame();
    entry = queue + (u8)(queue_count << 2);
    *entry++ = (u8)address;
    *entry++ = (u8)(address >> 8);
    *entry++ = tile;
    *entry = attribute;
    queue_count++;
}

void tile_poke(u16 address, u8 tile, u8 attribute) {
    *(u8 *)address = tile;
    VBK = 1;
    *(u8 *)address = attribute;
    VBK = 0;
}

void sprites_begin(void) {
    sprites_used = 0;
}

/* What lies wholly under the raised window is not drawn: its gold would let sprites shine through. */
static void hide_covered(void) {
    u8 *entry = oam;
    u8 i;
    for (i = 0; i < sprites_used; i++) {
        if (*entry >= window_y + 16) *entry = 0;
        entry += 4;
    }
}

void sprites_end(void) {
    u8 *entry = oam + (u8)(sprites_used << 2);
    u8 i;
    if (window_y < 128) hide_covered();
    for (i = sprites_used; i < sprites_before; i++) {
        *entry = 0;
        entry += 4;
    }
    sprites_before = sprites_used;
}

static void push(u8 y, u8 x, u8 tile, u8 attribute) {
    u8 *entry;
    i16 down = (i16)y - camera_y, right = (i16)x - camera_x;
    if (sprites_used >= 40 || down < 0 || down > 144 || right < 0 || right > 168) return;
    entry = oam + (u8)(sprites_used << 2);
    *entry++ = (u8)down;
    *entry++ = (u8)right;
    *entry++ = tile;
    *entry = attribute;
    sprites_used++;
}

void sprite8_scrolled(u8 y, u8 x, u8 tile, u8 attribute) {
    push(y + 8, x + 4, tile, attribute);
}

void sprite16_scrolled(u8 y, u8 x, u8 tile, u8 attribute) {
    u8 mirrored = attribute & FLIP_X ? 2 : 0;
    push(y + 8, x, tile + mirrored, attribute);
    push(y + 8, x + 8, tile + (2 ^ mirrored), attribute);
}

static const u16 masks[] = {0x7FFF, 0x3DEF, 0x1CE7, 0x0C63, 0x0421, 0};

static void shade(u16 *to, const u16 *from, u8 count, u8 darkness) {
    u16 colour;
    u8 i;
    while (count--) {
        colour = *from++;
        for (i = 0; i < darkness; i++) colour >>= 1;
        *to++ = colour & masks[darkness];
    }
}

void palettes_show(u8 darkness) {
    const u16 *area = (const u16 *)(area_palettes + ((u16)area_palette << 6));
    shade(palettes, area, 28, darkness);
    shade(palettes + 28, area + 28, 4, 0); /* status line and text stay lit */
    shade(palettes + 32, (const u16 *)sprite_palettes, 32, darkness);
    palette_dirty = 3;
}

void fade_out(void) {
    u8 i;
    palette_mode = 1;
    for (i = 1; i <= BLACK; i++) {
        palettes_show(i);
        wait(2);
    }
}

void fade_in(void) {
    u8 i = BLACK;
    palette_mode = 2;
    while (i--) {
        palettes_show(i);
        wait(2);
    }
    palette_mode = 0;
}
