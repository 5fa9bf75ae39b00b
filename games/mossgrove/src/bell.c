/* The season bell. */
#include "bell.h"
#include "assets.h"
#include "memory.h"
#include "room.h"
#include "sound.h"

static u8 on_seasonal(void) {
    u8 i, tile;
    for (i = 0; i < 4; i++) {
        tile = layout[POS(hero.yh + (i & 1 ? 6 : -2), hero.xh + (i & 2 ? 4 : -5))];
        if (tile == TILE_ICE || tile == TILE_VINE || tile == TILE_LEAVES) return 1;
    }
    return 0;
}

void bell_ring(void) {
    u8 next = season;
    if (!OUTDOORS || on_seasonal()) {
        sound(SOUND_HIT);
        return;
    }
    do {
        next = (next + 1) & 3;
    } while (!(seasons & (1 << next)));
    season = next;
    sound(SOUND_BELL);
    room_reseason();
}
