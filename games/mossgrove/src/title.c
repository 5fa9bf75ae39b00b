/* The title: A or Start begins, and so does a little patience. */
#include "title.h"
#include "assets.h"
#include "frame.h"
#include "hud.h"
#include "memory.h"
#include "room.h"
#include "things.h"
#include "video.h"

#define PATIENCE 240

static const char prompt[] = "Press Start";
static const u8 moss[] = {TILE_TITLE_M, TILE_TITLE_O, TILE_TITLE_S, TILE_TITLE_S};
static const u8 grove[] = {TILE_TITLE_G, TILE_TITLE_R, TILE_TITLE_O, TILE_TITLE_V, TILE_TITLE_E};

void title(void) {
    u8 i;
    room_picture();
    for (i = 0; i < 4; i++) layout[0x11 + i] = moss[i];
    for (i = 0; i < 5; i++) layout[0x24 + i] = grove[i];
    window_y = 128;
    room_show();
    cutscene_index = 0x0D;
    game_state = 0;
    for (i = 0; prompt[i]; i++) window_put(1, 4 + i, font[(u8)(prompt[i] - 32)], 0);
    for (i = 0; i < PATIENCE; i++) {
        sprite16(88, i - 16, i & 8 ? SPRITE_HERO_SIDE_1 : SPRITE_HERO_SIDE_2, PAL_HERO);
        frame();
        if (keys_new & (KEY_A | KEY_START)) break;
    }
}
