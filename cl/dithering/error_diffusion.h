/* One step of error diffusion to a palette: what arrives at a pixel, the entry chosen for it, its error.
 *
 * Errors are of 8-bit values (R, G, B, alpha) where PLAIN_ERRORS, else of the coordinates of the space in which colours
 * are compared. The value is clamp(c + strength * s / (256 * DIVISOR)), rounded toward zero, with s the sum of weights
 * times errors; it is within 0..extent, so an error is at most 2048, |s| at most 48 * 2048, and strength * s < 2^25.
 *
 * Constants: ARRIVING, an expression: s by weights and AT(columns ahead, rows below); DIVISOR; PLAIN_ERRORS;
 * mapping/nearest.h's.
 */
#include "mapping/nearest.h"

#define DIFFUSION_PARAMETERS \
    PALETTE_PARAMETERS, __global const uchar *image, __global INDEX *output, int4 extent, int strength
#define DIFFUSION_ARGUMENTS PALETTE_ARGUMENTS, image, output, extent, strength

/* Chooses the entry of the pixel `from` of the image, writes it to the place `to` of the output unless that is
 * negative, and returns the error. Pixels of alpha 0 have no error and take none. */
int4 diffuse(DIFFUSION_PARAMETERS, size_t from, long to, int4 sum)
{
    const int4 color = load_pixel(image, from);
    int entry = max(transparent, 0);
    int4 error = 0;
    if (!is_transparent(color, transparent, missing)) {
        const int4 arriving = strength * sum / (256 * DIVISOR);
#if PLAIN_ERRORS
        const int4 value = clamp(color + arriving, (int4)(0), extent);
        entry = nearest_to_color(space_coordinates(value, tables), value, points, colors, PALETTE_CELLS);
        error = value - colors[entry];
#else
        const int4 value = clamp(space_coordinates(color, tables) + arriving, (int4)(0), extent);
        entry = nearest_to_color(value, color, points, colors, PALETTE_CELLS);
        error = value - points[entry];
#endif
    }
    if (to >= 0)
        output[to] = (INDEX)entry;
    return error;
}
