/* Rooms: loading, drawing, scrolling and warping. */
#include "room.h"
#include "enemy.h"
#include "frame.h"
#include "hardware.h"
#include "memory.h"
#include "things.h"
#include "video.h"

#define COLUMNS 10
#define ROWS 8
#define TITLE_GROUP 8

const struct room *here;
u8 *flags;
static u8 found, index; /* in the table: of the last search, of this room */
static u8 origin_x, origin_y; /* where in the 32 x 32 map the room begins */
static const u8 steps[] = {0xF0, 0x01, 0x10, 0xFF};

static const struct room *find(u8 in_group, u8 number) {
    const struct room *r = rooms;
    u8 i;
    for (i = 0; i < ROOMS; i++, r++)
        if (r->group == in_group && r->number == number) {
            found = i;
            return r;
        }
    return 0;
}

u8 *room_flags_of(u8 in_group, u8 number) {
    u16 page = 0;
    if (in_group >= 4)
        page = in_group & 1 ? 0x300 : 0x200;
    else if (in_group)
        page = 0x100;
    return room_flags + page + number;
}

static u8 seasonal(u8 tile) {
    if (group) return tile;
    if (season == WINTER && tile >= TILE_WATER && tile <= TILE_WATER_LAST) return TILE_ICE;
    if (season == SUMMER && tile == TILE_SPROUT) return TILE_VINE;
    if (season == AUTUMN && tile == TILE_HOLE) return TILE_LEAVES;
    return tile;
}

static void place(u8 position, u8 tile) {
    layout[position] = tile;
    collisions[position] = metatile_solid[tile];
}

void room_build(void) {
    const u8 *from = fetched;
    u8 row, column, position;
    fetch((const u8 *)0xD000 + ((u16)index << 6) + ((u16)index << 4));
    for (position = 0; position < 0xB0; position++) {
        layout[position] = 0;
        collisions[position] = 0x0F;
    }
    for (row = 0; row < ROWS; row++) {
        position = row << 4;
        for (column = 0; column < COLUMNS; column++) place(position++, seasonal(*from++));
    }
}

static void set_place(void) {
    area_palette = here->palette;
    active_collisions = tileset_flags = 0;
    dungeon = NO_DUNGEON;
    if (OUTDOORS) {
        area_palette = PALETTE_SPRING + season;
        tileset_flags = 0x01;
        minimap_group = group;
        minimap_room = room;
    } else if (group == 3) {
        active_collisions = 3;
        tileset_flags = 0x04;
    } else {
        active_collisions = 4;
        tileset_flags = 0x08;
        dungeon = group - 3;
        dungeon_position = (room >> 4 << 3) | (room & 7);
        dungeon_floor = 0;
        visited_floors[dungeon] |= 1;
        minimap_group = group;
        minimap_room = room;
        minimap_position = dungeon_position;
    }
}

/* What a dungeon's room holds: a key, a chest, a boss. */
static void set_properties(void) {
    const struct thing *t = here->things;
    u8 i;
    room_properties = 0;
    if (dungeon == NO_DUNGEON) return;
    if (here->trigger == TRIGGER_BOSS) room_properties = 0x40;
    for (i = here->count; i; i--, t++)
        if (t->kind == THING_CHEST) room_properties |= t->a == TREASURE_SMALL_KEY ? 0x30 : 0x20;
}

void room_enter(u8 in_group, u8 number) {
    group = in_group;
    loading_room = room = number;
    here = find(in_group, number);
    index = found;
    flags = room_flags_of(in_group, number);
    set_place();
    room_build();
    things_load();
    *flags |= FLAG_VISITED;
    set_properties();
}

u8 room_has_neighbour(u8 direction) {
    return group != 3 && find(group, room + steps[direction]) != 0;
}

static u16 cell(u8 x, u8 y) {
    return MAP + ((u16)((origin_y + y) & 31) << 5) + ((origin_x + x) & 31);
}

/* Tile (x, y), in eighths of the room, of what the layout has there. */
static u8 part_tile, part_attribute;
static void part(u8 x, u8 y) {
    u16 quarter = ((u16)layout[(u8)((y >> 1) << 4) | (x >> 1)] << 2) | ((y & 1) << 1) | (x & 1);
    part_tile = metatile_tiles[quarter];
    part_attribute = metatile_attributes[quarter];
}

static void room_draw(void) {
    u8 x, y;
    for (y = 0; y < ROWS * 2; y++)
        for (x = 0; x < COLUMNS * 2; x++) {
            part(x, y);
            tile_poke(cell(x, y), part_tile, part_attribute);
        }
}

static void put(u8 x, u8 y) {
    part(x, y);
    tile_put(cell(x, y), part_tile, part_attribute);
}

void tile_set(u8 position, u8 tile) {
    u8 x = (position & 0x0F) << 1, y = position >> 4 << 1;
    place(position, tile);
    put(x, y);
    put(x + 1, y);
    put(x, y + 1);
    put(x + 1, y + 1);
}

void room_scroll(u8 direction) {
    u8 i, j;
    menu_disabled = 1;
    scroll_mode = 0x08;
    scroll_direction = direction;
    cutscene_index = 0;
    things_clear();
    frame();
    scroll_mode = 0x06;
    camera_moves = 1;
    if (direction == RIGHT) {
        origin_x = (origin_x + 20) & 31;
        camera_x = -160;
        hero.xh = 0;
    } else if (direction == LEFT) {
        origin_x = (origin_x - 20) & 31;
        camera_x = 160;
        hero.xh = 159;
    } else if (direction == DOWN) {
        origin_y = (origin_y + 16) & 31;
        camera_y = -128;
        hero.yh = 0;
    } else {
        origin_y = (origin_y - 16) & 31;
        camera_y = 128;
        hero.yh = 127;
    }
    room_enter(group, room + steps[direction]);
    cutscene_index = 1;
    for (i = 0; i < (direction & 1 ? 20 : 16); i++) {
        scroll_state = i + 1;
        switch (direction) {
        case RIGHT:
            for (j = 0; j < 16; j++) put(i, j);
            scroll_x += 8;
            camera_x += 8;
            if (i & 1) hero.xh++;
            break;
        case LEFT:
            for (j = 0; j < 16; j++) put(19 - i, j);
            scroll_x -= 8;
            camera_x -= 8;
            if (i & 1) hero.xh--;
            break;
        case DOWN:
            for (j = 0; j < 20; j++) put(j, i);
            scroll_y += 8;
            camera_y += 8;
            if (i & 1) hero.yh++;
            break;
        default:
            for (j = 0; j < 20; j++) put(j, 15 - i);
            scroll_y -= 8;
            camera_y -= 8;
            if (i & 1) hero.yh--;
        }
        things_draw();
        frame();
    }
    camera_moves = 0;
    camera_x = camera_y = 0;
    scroll_state = 0;
    scroll_mode = 1;
    menu_disabled = 0;
    things_arrive();
}

static void room_redraw(void) {
    lcd_off();
    room_draw();
    palettes_show(5);
    lcd_on();
}

/* The season turns where the hero stands: the ground is drawn anew around him. */
void room_reseason(void) {
    disabled_objects = 0x81;
    menu_disabled = 1;
    fade_out();
    room_build();
    things_place();
    set_place();
    room_redraw();
    fade_in();
    disabled_objects = 0;
    menu_disabled = 0;
}

void room_picture(void) {
    here = find(TITLE_GROUP, 0);
    index = found;
    flags = room_flags;
    area_palette = here->palette;
    room_build();
}

void room_show(void) {
    origin_x = origin_y = scroll_x = scroll_y = 0;
    room_redraw();
    things_draw();
    frame();
    cutscene_index = 3;
    fade_in();
    cutscene_index = 1;
    game_state = 2;
    menu_disabled = 0;
    disabled_objects = 0;
    things_arrive();
}

/* Death leads back to the last way in, houses aside. */
static void set_respawn(void) {
    respawn_group = group;
    respawn_room = room;
    respawn_season = season;
    respawn_direction = hero.direction;
    respawn_y = hero.yh;
    respawn_x = hero.xh;
}

void room_warp(const struct warp *to) {
    menu_disabled = 1;
    disabled_objects = 0x81;
    warp_group = to->group;
    warp_room = to->room;
    warp_position = to->position;
    warp_transition = to->direction;
    warp_pending = 1;
    cutscene_index = 3;
    hero.state = 0x0A;
    fade_out();
    cutscene_index = 0;
    game_state = 1;
    things_clear();
    enemies_forget();
    hero.yh = (to->position & 0xF0) + 8;
    hero.xh = (u8)(to->position << 4) + 8;
    hero.direction = to->direction;
    room_enter(to->group, to->room);
    if (group != 3) set_respawn();
    warp_pending = 0;
    hero.state = 1;
    hero.invincibility = hero.knockback = 0;
    room_show();
}
