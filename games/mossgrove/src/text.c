/* Speech: the window slides up, the words come, and A or B goes on. */
#include "text.h"
#include "assets.h"
#include "frame.h"
#include "hud.h"
#include "memory.h"
#include "things.h"
#include "video.h"

#define INDEX_BASE 0x400
#define CHOICE 1
#define NEWLINE 10
#define PAGE 12
#define FIRST_ROW 3
#define COLUMNS 18
#define LINES 3
#define HELD 24 /* a button that stays down also goes on, slowly */
#define READ (KEY_A | KEY_B)
#define CLOSED 128
#define OPEN 88

#define PAIR 128
#define DEEPEST 8

static u8 row, column, hurried;
static const u8 *reading;
static u8 waiting[DEEPEST], depth; /* second halves of pairs whose first half is being read */

static u8 next(void) {
    const u8 *pair;
    u8 c = depth ? waiting[--depth] : *reading++;
    while (c >= PAIR) {
        pair = pairs + ((u16)(c - PAIR) << 1);
        waiting[depth++] = pair[1];
        c = pair[0];
    }
    return c;
}

void box_draw(void) {
    u8 x;
    for (x = 0; x < 20; x++) {
        window_put(0, x, 0, 0);
        window_put(1, x, 0, 0);
        window_put(2, x, x == 0 || x == 19 ? GLYPH_BOX_CORNER : GLYPH_BOX_TOP, x == 19 ? FLIP_X : 0);
        window_put(3, x, x == 0 || x == 19 ? GLYPH_BOX_SIDE : 0, x == 19 ? FLIP_X : 0);
        window_put(4, x, x == 0 || x == 19 ? GLYPH_BOX_SIDE : 0, x == 19 ? FLIP_X : 0);
        window_put(5, x, x == 0 || x == 19 ? GLYPH_BOX_SIDE : 0, x == 19 ? FLIP_X : 0);
        window_put(6, x, x == 0 || x == 19 ? GLYPH_BOX_CORNER : GLYPH_BOX_TOP, x == 19 ? FLIP_X | FLIP_Y : FLIP_Y);
    }
}

void box_clear(void) {
    u8 x, y;
    for (y = 0; y < LINES; y++)
        for (x = 1; x <= COLUMNS; x++) window_put(FIRST_ROW + y, x, 0, 0);
}

static void new_page(void) {
    box_clear();
    row = FIRST_ROW;
    column = 1;
    hurried = 0;
}

static void open(u8 message) {
    text_active = 1;
    text_mode = 0;
    text_index = INDEX_BASE + message;
    new_page();
    while (window_y > OPEN) {
        window_y -= 8;
        idle();
    }
}

static void close(void) {
    text_mode = 0;
    while (window_y < CLOSED) {
        window_y += 8;
        idle();
    }
    text_active = 0;
}

static void letter(u8 c) {
    window_put(row, column++, font[(u8)(c - 32)], 0);
    if (hurried || column & 1) return;
    idle();
    if (keys_new & READ) hurried = 1;
}

/* Wait for a press, or for a button that has stayed down. */
static void wait_read(void) {
    u8 held = 0, blink = 0;
    for (;;) {
        idle();
        if (keys_new & READ) break;
        held = keys & READ ? held + 1 : 0;
        if (held == HELD) break;
        window_put(6, 17, ++blink & 0x10 ? GLYPH_MORE : GLYPH_BOX_TOP, blink & 0x10 ? 0 : FLIP_Y);
    }
    window_put(6, 17, GLYPH_BOX_TOP, FLIP_Y);
}

/* Everything up to the end; returns whether a question stands there. */
static u8 tell(u8 message) {
    u8 c;
    reading = messages[message];
    depth = 0;
    while ((c = next())) {
        if (c == CHOICE) return 1;
        if (c == NEWLINE) {
            row++;
            column = 1;
        } else if (c == PAGE) {
            wait_read();
            new_page();
        } else {
            letter(c);
        }
    }
    wait_read();
    return 0;
}

void say(u8 message) {
    open(message);
    tell(message);
    close();
}

static void words(const char *word) {
    while (*word) letter(*word++);
}

u8 ask(u8 message) {
    open(message);
    tell(message);
    text_choice = 0;
    text_mode = 1;
    row = FIRST_ROW + LINES - 1;
    column = 4;
    words("Yes");
    column = 12;
    words("No");
    for (;;) {
        window_put(row, 3, text_choice ? 0 : font['>' - 32], 0);
        window_put(row, 11, text_choice ? font['>' - 32] : 0, 0);
        idle();
        if (keys_new & 0xF0) text_choice ^= 1;
        if (keys_new & KEY_B) text_choice = 1;
        if (keys_new & READ) break;
    }
    close();
    return !text_choice;
}
