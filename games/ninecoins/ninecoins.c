/* Nine Coins: a tiny game of our own, to try how another game is added. Three rooms by three, a coin in each;
   all nine light a lantern. A with a direction runs. */
typedef unsigned char u8;

__sfr __at(0x00) P1;
__sfr __at(0x40) LCDC;
__sfr __at(0x4F) VBK;
__sfr __at(0x68) BCPS;
__sfr __at(0x69) BCPD;
__sfr __at(0x6A) OCPS;
__sfr __at(0x6B) OCPD;
__at(0x8000) volatile u8 tiles[64];
__at(0x9800) volatile u8 map[1024];
__at(0xFE00) volatile u8 sprites[160];

volatile u8 frames;
__at(0xC200) u8 keys;
__at(0xC201) u8 keys_new;
__at(0xC300) u8 playing;  /* 0 title, 1 play */
__at(0xC301) u8 coins;
__at(0xC302) u8 taken[9]; /* by room */
__at(0xC30B) u8 lit;
__at(0xD00B) u8 hero_y;
__at(0xD00D) u8 hero_x;
__at(0xD010) u8 room; /* 3 * row + column */
__at(0xD011) u8 facing; /* 0 up, 1 right, 2 down, 3 left */

static const u8 column[9] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
static const u8 coin_y[9] = {24, 96, 60, 112, 40, 80, 24, 112, 64};
static const u8 coin_x[9] = {32, 128, 80, 16, 140, 24, 120, 60, 100};

static void colour(u8 low, u8 high) {
    u8 n;
    BCPS = OCPS = 0x80;
    for (n = 0; n < 8; n++) {
        BCPD = low;
        BCPD = high;
        OCPD = 0xFF;
        OCPD = 0x03;
    }
}

static void frame(void) {
    u8 n = frames, pad = 0;
    while (frames == n) {
        __asm__("halt");
        __asm__("nop");
    }
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

static void draw(void) {
    sprites[0] = hero_y + 12;
    sprites[1] = hero_x + 4;
    sprites[4] = taken[room] ? 0 : coin_y[room] + 12;
    sprites[5] = coin_x[room] + 4;
    colour(room * 28, lit ? 0x7F : room << 2);
}

static void across(u8 to, u8 y, u8 x) {
    room = to;
    hero_y = y;
    hero_x = x;
}

static void walk(void) {
    u8 speed = keys & 1 ? 3 : 1;
    if (keys & 0x40) {
        facing = 0;
        if (hero_y > 8) hero_y -= speed;
        else if (room > 2) across(room - 3, 132, hero_x);
    } else if (keys & 0x80) {
        facing = 2;
        if (hero_y < 136) hero_y += speed;
        else if (room < 6) across(room + 3, 12, hero_x);
    } else if (keys & 0x20) {
        facing = 3;
        if (hero_x > 8) hero_x -= speed;
        else if (column[room]) across(room - 1, hero_y, 148);
    } else if (keys & 0x10) {
        facing = 1;
        if (hero_x < 152) hero_x += speed;
        else if (column[room] < 2) across(room + 1, hero_y, 12);
    }
}

static u8 apart(u8 a, u8 b) { return a > b ? a - b : b - a; }

void main(void) {
    u8 n;
    for (n = 0; n < 16; n++) tiles[n] = 0xFF;
    colour(0x1F, 0x00);
    LCDC = 0x93;
    do frame(); while (!(keys_new & 8));
    room = 4;
    hero_y = 72;
    hero_x = 80;
    for (n = 0; n < 40; n++) frame();
    playing = 1;
    for (;;) {
        frame();
        walk();
        if (!taken[room] && apart(hero_y, coin_y[room]) < 8 && apart(hero_x, coin_x[room]) < 8) {
            taken[room] = 1;
            coins++;
            if (coins == 9) lit = 1;
        }
        draw();
    }
}
