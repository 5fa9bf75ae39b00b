/* Things of a room: one place that loads, moves and draws all of them. */
#include "things.h"
#include "hero.h"
#include "memory.h"
#include "room.h"

static void clear_objects(void) {
    u8 i;
    for (i = 0; i < ENEMIES; i++) ENEMY(i)->enabled = 0;
    for (i = 0; i < PARTS; i++) PART(i)->enabled = 0;
    for (i = 0; i < NPCS; i++) NPC(i)->enabled = 0;
    block.enabled = 0;
}

void things_clear(void) {
    clear_objects();
    enemy_count = triggers = torches_lit = 0;
    on_chest = 0;
    block_angle = 0;
}

void things_load(void) {
}

void things_arrive(void) {
    hero_arrive();
}

void things_update(void) {
    hero_update();
}

void things_draw(void) {
    hero_draw();
}
