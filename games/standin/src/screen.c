/* What is seen: every metatile as a square in the colour of its kind; the frame and the buttons. */
#include "screen.h"
#include "room.h"

__sfr __at(0x00) P1;
__sfr __at(0x40) LCDC;
__sfr __at(0x42) SCY;
__sfr __at(0x43) SCX;
__sfr __at(0x44) LY;
__sfr __at(0x4F) VBK;
__sfr __at(0x68) BCPS;
__sfr __at(0x69) BCPD;
__sfr __at(0x6A) OCPS;
__sfr __at(0x6B) OCPD;

__at(0x8000) volatile u8 tiles[4096];
__at(0x9800) volatile u8 map[1024];
__at(0xFE00) volatile u8 sprites[160];

static u8 waiting[16], waiting_count;
static const u16 colours[8] = {0x5294, 0x1CE7, 0x0000, 0x7C00, 0x001F, 0x03FF, 0x03E0, 0x7FFF};
/* Which colour a kind of metatile has. */
static const u8 colour_of[27] = {0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 5, 5, 5, 5, 5, 5, 3, 5, 4, 6, 6, 5, 5, 1, 1};

void screen_begin(void) {
    u8 n, row;
    BCPS = OCPS = 0x80;
    for (n = 0; n < 8; n++)
        for (row = 0; row < 4; row++) {
            BCPD = colours[n] & 255;
            BCPD = colours[n] >> 8;
            OCPD = n ? 0xE0 : 0xFF;
            OCPD = n ? 0x03 : 0x7F;
        }
    for (n = 0; n < 16; n++) tiles[n] = 0xFF;
}

static void read_keys(void) {
    u8 pad, n;
    P1 = 0x20;
    for (n = 0; n < 4; n++) pad = P1;
    pad = (u8)(~pad << 4);
    P1 = 0x10;
    for (n = 0; n < 8; n++) keys_new = P1;
    pad |= ~keys_new & 0x0F;
    P1 = 0x30;
    keys_new = pad & ~keys;
    keys = pad;
}

static u8 look(u8 at) {
    u8 kind = kind_at(at);
    return kind == FLOOR && !passable(collisions[at]) ? 1 : colour_of[kind];
}

static void draw(u8 at) {
    u16 to = ((u16)(at >> 4) << 6) + ((at & 15) << 1) + 64;
    u8 colour = look(at);
    VBK = 1;
    map[to & 1023] = map[(to + 1) & 1023] = map[(to + 32) & 1023] = map[(to + 33) & 1023] = colour;
    VBK = 0;
}

void draw_later(u8 at) {
    if (waiting_count < 16) waiting[waiting_count++] = at;
}

void draw_room(void) {
    u8 at;
    LCDC = 0;
    for (at = 0; at < 176; at++)
        if (inside(at)) draw(at);
    LCDC = 0x93;
    waiting_count = 0;
}

/* A picture of one shade in place of the room: title, file, name and text. */
void picture(u8 shade) {
    u16 n;
    LCDC = 0;
    VBK = 1;
    for (n = 0; n < 1024; n++) map[n] = shade;
    VBK = 0;
    LCDC = 0x93;
}

static void draw_sprite(u8 n, u8 y, u8 x, u8 colour) {
    sprites[n * 4] = y + 28 - SCY;
    sprites[n * 4 + 1] = x + 4 - SCX;
    sprites[n * 4 + 2] = 0;
    sprites[n * 4 + 3] = colour;
}

void frame(void) {
    u8 n = frames;
    while (frames == n) {
        __asm__("halt");
        __asm__("nop");
    }
    read_keys();
    if (game_state != 2) return;
    SCY = large && hero.y > 64 ? (hero.y > 112 ? 48 : hero.y - 64) : 0;
    SCX = large && hero.x > 80 ? (hero.x > 160 ? 80 : hero.x - 80) : 0;
    draw_sprite(0, hero.y, hero.x, 0);
    for (n = 0; n < 8; n++)
        draw_sprite(n + 1, ENEMY(n)->enabled ? ENEMY(n)->y : 160, ENEMY(n)->enabled ? ENEMY(n)->x : 180, 1);
    for (n = 0; n < 2 && waiting_count; n++) draw(waiting[--waiting_count]);
}
