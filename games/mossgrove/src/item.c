/* Treasures: what is owned, and how it is counted. */
#include "item.h"
#include "assets.h"
#include "frame.h"
#include "hud.h"
#include "memory.h"
#include "room.h"
#include "sound.h"
#include "text.h"
#include "things.h"
#include "video.h"

#define MAX_AMBER 9 /* hundreds */
#define HEARTS_LIMIT 40

struct kind { u8 flag, message, sprite, palette; };

static const struct kind kinds[] = {
    {0x28, TEXT_GOT_AMBER, SPRITE_AMBER, PAL_GOLD},         {0x29, 0, SPRITE_HEART, PAL_RED},
    {0x30, TEXT_GOT_KEY, SPRITE_KEY, PAL_GOLD},             {0x31, TEXT_GOT_GREAT_KEY, SPRITE_GREAT_KEY, PAL_GOLD},
    {0x05, TEXT_GOT_SWORD, SPRITE_BLADE_UP, PAL_GREY},      {0x07, TEXT_GOT_BELL, SPRITE_BELL, PAL_GOLD},
    {0x01, TEXT_GOT_SHIELD, SPRITE_SHIELD, PAL_BROWN},      {0x2A, TEXT_GOT_CONTAINER, SPRITE_CONTAINER, PAL_RED},
    {0x2B, TEXT_GOT_PIECE, SPRITE_CONTAINER, PAL_VIOLET},   {0x40, TEXT_GOT_LIGHT, SPRITE_LIGHT, PAL_GOLD},
    {0x07, TEXT_GOT_SUMMER, SPRITE_LIGHT, PAL_GREEN},       {0x07, TEXT_GOT_AUTUMN, SPRITE_LIGHT, PAL_RED},
};

static u8 bit(u8 n) {
    return 1 << (n & 7);
}

u8 has_treasure(u8 flag) {
    return treasures[flag >> 3] & bit(flag);
}

void bcd_count(u8 *bcd) {
    u8 low = bcd[0] + 1;
    if ((low & 0x0F) == 10) low += 6;
    if (low == 0xA0) {
        low = 0;
        bcd[1]++;
        if ((bcd[1] & 0x0F) == 10) bcd[1] += 6;
    }
    bcd[0] = low;
}

void amber_add(u8 amount) {
    while (amount--) {
        bcd_count(amber_total);
        if (amber[1] < MAX_AMBER || amber[0] < 0x99) bcd_count(amber);
    }
}

static u8 tens(u8 digits) {
    return (digits << 3) + (digits << 1);
}

u8 amber_pay(u8 price) {
    u8 low = amber[0], high = amber[1];
    if (!high && tens(low >> 4) + (low & 0x0F) < price) return 0;
    while (price--) {
        if (!low) {
            low = 0x99;
            high--;
        } else {
            low -= low & 0x0F ? 1 : 7;
        }
    }
    amber[0] = low;
    amber[1] = high;
    return 1;
}

void heal(u8 quarters) {
    health += quarters;
    if (health > max_health) health = max_health;
}

static void equip(u8 item, u8 *slot) {
    if (item_a == item || item_b == item) return;
    if (*slot) items[0] = item;
    else *slot = item;
}

static void add_heart(void) {
    if (max_health < HEARTS_LIMIT) max_health += 4;
    health = max_health;
}

static void count(u8 treasure, u8 amount) {
    switch (treasure) {
    case TREASURE_AMBER:
        amber_add(amount);
        break;
    case TREASURE_HEART:
        heal(amount);
        break;
    case TREASURE_SMALL_KEY:
        small_keys[dungeon]++;
        break;
    case TREASURE_BOSS_KEY:
        boss_keys[0] |= bit(dungeon);
        break;
    case TREASURE_SWORD:
        sword_level = amount;
        equip(ITEM_SWORD, &item_a);
        break;
    case TREASURE_BELL:
        seasons |= 0x89;
        equip(ITEM_BELL, &item_b);
        break;
    case TREASURE_SHIELD:
        items[1] = ITEM_SHIELD;
        break;
    case TREASURE_CONTAINER:
        add_heart();
        break;
    case TREASURE_PIECE:
        if (++heart_pieces == 4) {
            heart_pieces = 0;
            add_heart();
        }
        break;
    case TREASURE_ESSENCE:
        essences |= bit(dungeon - 1);
        break;
    case TREASURE_SUMMER:
        seasons |= 0x02;
        break;
    case TREASURE_AUTUMN:
        seasons |= 0x04;
    }
}

void treasure_draw(u8 y, u8 x, u8 treasure) {
    const struct kind *k = &kinds[treasure];
    u8 sprite = k->sprite;
    if (sprite == SPRITE_HEART || sprite == SPRITE_AMBER || sprite == SPRITE_KEY || sprite == SPRITE_BLADE_UP)
        sprite8(y, x, sprite, k->palette);
    else
        sprite16(y, x, sprite, k->palette);
}

void give(u8 treasure, u8 amount) {
    const struct kind *k = &kinds[treasure];
    u8 message = k->message;
    if (treasure == TREASURE_SWORD && amount > 1) message = TEXT_GOT_SWORD_2;
    if (treasure == TREASURE_ESSENCE && dungeon > 1) message = TEXT_GOT_LIGHT_2;
    count(treasure, amount);
    treasures[k->flag >> 3] |= bit(k->flag);
    sound(SOUND_TREASURE);
    hero.state = 4;
    hero.direction = DOWN;
    shown_treasure = treasure;
    say(message);
    hero.state = 1;
}
