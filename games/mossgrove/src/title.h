#ifndef TITLE_H
#define TITLE_H

void title(void); /* returns when play begins */

#endif
