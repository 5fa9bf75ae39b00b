/* What gives way: blocks that slide, doors that unlock. */
#include "block.h"
#include "assets.h"
#include "memory.h"
#include "room.h"
#include "sound.h"
#include "video.h"

static const u8 steps[] = {0xF0, 0x01, 0x10, 0xFF};

/* Only plain floor takes a block, so that none can be pushed into a doorway. */
void block_push(u8 position, u8 direction) {
    u8 to = position + steps[direction], tile = layout[to];
    if (block.enabled || (tile != TILE_FLOOR && tile != TILE_PLATE)) return;
    block.enabled = 1;
    block.id = 0x14;
    block.state = 1;
    block.direction = direction;
    block.angle = block_angle = direction << 3;
    block_angle |= 0x80;
    block.yh = (position & 0xF0) + 8;
    block.xh = (u8)(position << 4) + 8;
    block.counter1 = 16;
    block.var03 = to;
    tile_set(position, TILE_FLOOR);
    collisions[to] = 0x0F;
    sound(SOUND_OPEN);
}

void block_update(void) {
    if (!block.enabled) return;
    switch (block.direction) {
    case UP:
        block.yh--;
        break;
    case DOWN:
        block.yh++;
        break;
    case LEFT:
        block.xh--;
        break;
    default:
        block.xh++;
    }
    if (--block.counter1) return;
    block.subid = layout[block.var03] == TILE_PLATE;
    tile_set(block.var03, TILE_BLOCK);
    block.enabled = 0;
    block.state = 0;
}

void block_draw(void) {
    if (block.enabled) sprite16(block.yh, block.xh, SPRITE_BLOCK, PAL_GREY);
}

u8 block_on_plate(void) {
    return !block.enabled && block.subid;
}

u8 door_bit(u8 position) {
    u8 column = position & 0x0F;
    if (position < 0x10) return 0x01;
    if (position >= 0x70) return 0x04;
    if (column == 9) return 0x02;
    if (column == 0) return 0x08;
    return FLAG_DONE;
}

static void open_side(u8 bit) {
    u8 position;
    for (position = 0; position < 0x80; position++)
        if ((layout[position] == TILE_LOCK || layout[position] == TILE_GREAT_LOCK) && door_bit(position) == bit)
            tile_set(position, TILE_PASSAGE);
}

void door_unlock(u8 position, u8 great) {
    u8 bit = door_bit(position);
    if (great) {
        if (!(boss_keys[0] & (1 << dungeon))) return;
    } else {
        if (!small_keys[dungeon]) return;
        small_keys[dungeon]--;
    }
    *flags |= bit;
    if (bit == 0x01) *room_flags_of(group, room - 0x10) |= 0x04;
    if (bit == 0x04) *room_flags_of(group, room + 0x10) |= 0x01;
    if (bit == 0x02) *room_flags_of(group, room + 1) |= 0x08;
    if (bit == 0x08) *room_flags_of(group, room - 1) |= 0x02;
    open_side(bit);
    sound(SOUND_OPEN);
}
