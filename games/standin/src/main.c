/* The stand-in: a game of our own that keeps its state where Oracle of Seasons does. It is not that game. */
#include "hero.h"
#include "item.h"
#include "room.h"
#include "scene.h"
#include "screen.h"

/* Start opens the menu, and Start, A or B closes it. */
static void menu_turn(void) {
    if (menu ? keys_new & (KEY_START | KEY_A | KEY_B) : keys_new & KEY_START) menu = !menu;
}

void main(void) {
    screen_begin();
    title();
    for (;;) {
        frame();
        if (text_active) text_turn();
        else if (scroll_mode != 1 || warp_pending) scene_turn();
        else if (asked_group) {
            enter(asked_group - 1, asked_room);
            hero_begin(asked_y, asked_x);
            asked_group = 0;
        } else {
            menu_turn();
            if (menu) continue;
            hero_turn();
            block_turn();
            enemies_turn();
            solve_puzzle();
        }
    }
}
