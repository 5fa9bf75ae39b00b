#ifndef MENU_H
#define MENU_H

void menu_draw(void); /* once, before play */
void menu_open(void); /* returns when it is closed */

#endif
