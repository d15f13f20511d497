/* Pixels that hardly change from frame to frame are held; a new one begins as the median of the frames that it is
 * good for. Integers: the same on every device. */

static int4 pixel_of(__global const uchar *pixels, size_t i)
{
    pixels += i * CHANNELS;
#if CHANNELS == 1
    return (int4)(pixels[0], pixels[0], pixels[0], 255);
#elif CHANNELS == 3
    return (int4)(pixels[0], pixels[1], pixels[2], 255);
#else
    return (int4)(pixels[0], pixels[1], pixels[2], pixels[3]);
#endif
}

/* Whether one colour may stand for another; all of alpha 0 are one. */
static bool is_near(int4 a, int4 b, int most)
{
    const int4 d = a - b;
    if (a.w != b.w)
        return false;
    return a.w == 0 || RED * d.x * d.x + GREEN * d.y * d.y + BLUE * d.z * d.z <= most;
}

/* The lower median of the first n of a pixel's values, channel by channel. */
static int4 median_of(const int4 *values, uint n)
{
    int4 median = values[0];
    for (uint i = 0; i < n; i++) {
        int4 below = (int4)(0), not_above = (int4)(0);
        for (uint j = 0; j < n; j++) {
            below -= values[j] < values[i];
            not_above -= values[j] <= values[i];
        }
        const int4 rank = (int4)((int)(n - 1) / 2);
        median = select(median, values[i], below <= rank && not_above > rank);
    }
    return median;
}

/* One frame.
 * NDRange: 1-D, a work-item per pixel. window (FRAMES, pixels, CHANNELS) uchar: the frame, at place first, and the
 * count - 1 after it, in a ring; held (pixels, CHANNELS) uchar: what is shown, before and after, if there is a frame
 * before; stays (pixels) uchar: 1 where that does not change; most: the largest weighted square of a difference. */
__kernel void hold(__global const uchar *window, __global uchar *held, __global uchar *stays, uint first, uint count,
                   uint has_before, int most, uint pixels)
{
    const size_t i = get_global_id(0);
    if (i >= pixels)
        return;
    int4 values[FRAMES];
    values[0] = pixel_of(window, (size_t)first * pixels + i);
    if (has_before && is_near(pixel_of(held, i), values[0], most)) {
        stays[i] = 1;
        return;
    }
    uint n = 1;
    while (n < count) {
        values[n] = pixel_of(window, (size_t)((first + n) % FRAMES) * pixels + i);
        if (!is_near(values[n], values[0], most))
            break;
        n++;
    }
    const int4 median = median_of(values, n);
    const int4 shown = is_near(median, values[0], most) ? median : values[0];
    stays[i] = 0;
    held[i * CHANNELS] = (uchar)shown.x;
#if CHANNELS > 1
    held[i * CHANNELS + 1] = (uchar)shown.y;
    held[i * CHANNELS + 2] = (uchar)shown.z;
#endif
#if CHANNELS > 3
    held[i * CHANNELS + 3] = (uchar)shown.w;
#endif
}
