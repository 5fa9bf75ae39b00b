#ifndef BELL_H
#define BELL_H

void bell_ring(void); /* the next season that is owned; nothing indoors or where the ground would give way */

#endif
