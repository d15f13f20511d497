/* What both forms of ordered dithering share: which of two entries is the lighter one. Constant: SPACE of spaces.h. */

/* Axes' weights in lightness, to order two entries; alpha counts so that transparent and opaque have an order too. */
#if SPACE == 2
#define LIGHTNESS ((int4)(256, 0, 0, 64))
#elif SPACE == 1
#define LIGHTNESS ((int4)(54, 183, 19, 64))
#else
#define LIGHTNESS ((int4)(77, 150, 29, 64))
#endif

int dot4(int4 a, int4 b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
