#ifndef TYPES_H
#define TYPES_H

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned int u16;
typedef signed int i16;
typedef unsigned long u32;

/* Objects lie in pages: Dn00 special, Dn40 interaction, Dn80 enemy, DnC0 part, 64 bytes each. */
struct object {
    u8 enabled, id, subid, var03;
    u8 state, substate, counter1, counter2;
    u8 direction, angle;
    u8 ysub, yh, xsub, xh, zsub, zh;
    u8 speed;
    u8 var11[0x18];
    u8 health;        /* 29 */
    u8 var2a;
    u8 invincibility; /* 2B */
    u8 knock_angle;   /* 2C */
    u8 knockback;     /* 2D */
    u8 var2e[0x12];
};

enum { UP, RIGHT, DOWN, LEFT };

#define KEY_A 0x01
#define KEY_B 0x02
#define KEY_SELECT 0x04
#define KEY_START 0x08
#define KEY_RIGHT 0x10
#define KEY_LEFT 0x20
#define KEY_UP 0x40
#define KEY_DOWN 0x80

#define POS(y, x) (((y) & 0xF0) | ((x) >> 4))

#endif
