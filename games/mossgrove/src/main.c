/* Mossgrove: start, new file, and the loop of play. */
#include "assets.h"
#include "frame.h"
#include "hardware.h"
#include "hud.h"
#include "memory.h"
#include "menu.h"
#include "room.h"
#include "sound.h"
#include "text.h"
#include "things.h"
#include "title.h"
#include "video.h"

#define HEARTS 12

static const struct warp start = {0, 0x21, 0x44, DOWN};

static void fill(u8 *to, u8 value, u8 count) {
    while (count--) *to++ = value;
}

static void new_file(void) {
    fill(unappraised_rings, 0xFF, 64);
    fill(ring_box, 0xFF, 6);
    health = max_health = HEARTS;
    shield_level = 1;
    bombs_max = 0x10;
    global_flags[0x0A >> 3] |= 1 << (0x0A & 7);
    global_flags[0x21 >> 3] |= 1 << (0x21 & 7);
    hero.enabled = 1;
    hero.state = 1;
    hero_object = 0xD0;
    push_direction = 0xFF;
    scroll_mode = 1;
}

/* A, B, Select and Start together. */
static u8 wants_title(void) {
    return keys == (KEY_A | KEY_B | KEY_SELECT | KEY_START);
}

void main(void) {
    video_init();
    sound_init();
    lcd_on();
    IE = 1;
    __asm__("ei");
    box_draw();
    menu_draw();
    title();
    new_file();
    box_draw();
    hud_redraw();
    room_warp(&start);
    for (;;) {
        things_update();
        things_draw();
        frame();
        if (wants_title()) return;
    }
}
