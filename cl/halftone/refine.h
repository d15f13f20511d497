/* What the forms of a halftone's refinement share.
 *
 * Errors and values lie in planes by phase, as dithering/search_steps.h says, with sixteen planes and no spare one:
 * what is decided of a phase is noted first and applied after. A value is that of the pixel's output level, or FIXED
 * outside the picture. Neighbours of a pixel are numbered 0 to 8, row by row; 4 is the pixel itself.
 *
 * An action is NONE, a level to take, or SWAP + n: to change places with neighbour n.
 */
#include "dithering/search_steps.h"

#define AROUND 9
#define MIDDLE 4
#define NONE (-1)
#define SWAP 16
