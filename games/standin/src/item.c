/* Items in A and B, chests, signs and people, and enemies that wander about. */
#include "item.h"
#include "room.h"
#include "scene.h"

static const i8 reach_y[4] = {-14, 2, 18, 2}, reach_x[4] = {0, 14, 0, -14};
static u16 noise;

static u8 front(void) { return POS(hero.y + reach_y[hero.direction], hero.x + reach_x[hero.direction]); }

void hurt(u8 quarters) {
    if (hero.invincible) return;
    health = health > quarters ? health - quarters : 0;
    hero.invincible = 60;
    if (!health) {
        health = max_health;
        hero.y = local_y;
        hero.x = local_x;
    }
}

static u8 apart(u8 a, u8 b) { return a > b ? a - b : b - a; }

static void strike(void) {
    u8 n, at = front(), y = hero.y + reach_y[hero.direction], x = hero.x + reach_x[hero.direction];
    struct object *enemy;
    for (n = 0; n < ENEMIES; n++) {
        enemy = ENEMY(n);
        if (!enemy->enabled || apart(enemy->y, y) > 14 || apart(enemy->x, x) > 14) continue;
        enemy->health--;
        if (enemy->health) continue;
        enemy->enabled = 0;
        if (enemy_count) enemy_count--;
    }
    if (inside(at) && kind_at(at) == SWITCH) {
        put(at, layout[at] ^ 1, 0x0F);
        switches ^= 1;
    }
}

void use(u8 item) {
    u8 at = front();
    if (item == 0x05) strike();
    if (item == 0x19 && seeds[0]) {
        seeds[0] -= seeds[0] & 15 ? 1 : 7;
        if (inside(at) && kind_at(at) == TORCH) {
            put(at, 0x09, 0x0F);
            torches++;
        }
    }
}

/* A chest or sign from below, or a person: 1 where there was one. */
u8 look_ahead(void) {
    u8 at = front(), kind;
    if (!inside(at)) return 0;
    kind = kind_at(at);
    if (kind == CHEST && hero.direction == UP) {
        put(at, 0xF0, 0x0F);
        *flags() |= 0x20;
        say(1);
        return 1;
    }
    if (kind == SIGN && hero.direction == UP) {
        say(2);
        return 1;
    }
    if (kind == FLOOR && collisions[at] == 0x0F && !block.enabled) {
        say(3);
        return 1;
    }
    return 0;
}

static u8 chance(void) {
    noise = noise * 25173u + 13849u + keys;
    return (u8)(noise >> 8);
}

void enemies_turn(void) {
    static const i8 down[4] = {-1, 0, 1, 0}, right[4] = {0, 1, 0, -1};
    struct object *enemy;
    u8 n, y, x, at;
    for (n = 0; n < ENEMIES; n++) {
        enemy = ENEMY(n);
        if (!enemy->enabled) continue;
        if (apart(enemy->y, hero.y) < 9 && apart(enemy->x, hero.x) < 9) hurt(2);
        if (++enemy->counter1 & 3) continue;
        y = enemy->y + down[enemy->direction & 3];
        x = enemy->x + right[enemy->direction & 3];
        at = POS(y + 7 * down[enemy->direction & 3], x + 7 * right[enemy->direction & 3]);
        if (!inside(at) || !passable(collisions[at]) || kind_at(at) != FLOOR || chance() < 4) {
            enemy->direction = chance() & 3;
        } else {
            enemy->y = y;
            enemy->x = x;
        }
    }
}
