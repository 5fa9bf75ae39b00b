/* Mossgrove: start, new file, and the loop of play. */
#include "assets.h"
#include "frame.h"
#include "hardware.h"
#include "memory.h"
#include "room.h"
#include "things.h"
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
    respawn_group = start.group;
    respawn_room = start.room;
    respawn_direction = start.direction;
    respawn_y = (start.position & 0xF0) + 8;
    respawn_x = (u8)(start.position << 4) + 8;
    hero.enabled = 1;
    hero.state = 1;
    hero_object = 0xD0;
    push_direction = 0xFF;
    scroll_mode = 1;
}

void main(void) {
    video_init();
    lcd_on();
    IE = 1;
    __asm__("ei");
    new_file();
    room_warp(&start);
    for (;;) {
        things_update();
        things_draw();
        frame();
    }
}
