/* The frame: everything that happens once every sixtieth of a second. */
#include "frame.h"
#include "hardware.h"
#include "memory.h"
#include "video.h"

u8 frame_ready, frame_done;
static u16 noise;

static void read_keys(void) {
    u8 pad, i;
    P1 = 0x20;
    for (i = 0; i < 2; i++) pad = P1;
    pad = (u8)(~pad << 4);
    P1 = 0x10;
    for (i = 0; i < 4; i++) i = i + (P1 & 0);
    pad |= ~P1 & 0x0F;
    P1 = 0x30;
    keys_new = pad & ~keys;
    keys = pad;
}

/* Half a frame of nothing: 1254 turns of 7 cycles. */
static void burn(void) __naked {
    __asm
    ld bc, #1254
1$:
    dec bc
    ld a, b
    or c
    jr nz, 1$
    ret
    __endasm;
}

void frame(void) {
    sprites_end();
    frame_done = 0;
    frame_ready = 1;
    if (busy_mode) burn();
    while (!frame_done) {
        __asm__("halt");
        __asm__("nop");
    }
    playtime++;
    frame_counter = (u8)playtime;
    read_keys();
    /* Chance depends on nothing but the inputs and the time they came. */
    noise ^= keys;
    random();
    sprites_begin();
}

void wait(u8 frames) {
    while (frames--) frame();
}

u8 random(void) {
    if (!noise) noise = 0xACE1;
    noise ^= noise << 7;
    noise ^= noise >> 9;
    noise ^= noise << 8;
    return (u8)noise;
}
