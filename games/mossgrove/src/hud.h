#ifndef HUD_H
#define HUD_H

#include "types.h"

#define ITEM_SHIELD 0x01
#define ITEM_SWORD 0x05
#define ITEM_BELL 0x07

void hud_update(void);                                     /* draws what has changed */
void hud_redraw(void);                                     /* all of it next time */
void window_put(u8 row, u8 column, u8 tile, u8 attribute); /* a tile of status line, text box or menu */
void icon_put(u8 row, u8 column, u8 item);
void number_put(u8 row, u8 column, const u8 *bcd); /* three digits */

#endif
