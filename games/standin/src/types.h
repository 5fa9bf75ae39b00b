#ifndef TYPES_H
#define TYPES_H

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned int u16;

struct object {
    u8 enabled, id, subid, var03;
    u8 state, substate, counter1, counter2;
    u8 direction, angle;
    u8 ysub, y, xsub, x, zsub, z;
    u8 speed;
    u8 var11[0x18];
    u8 health;
    u8 var2a;
    u8 invincible;
    u8 var2c[0x14];
};

#endif
