"""
Less grain or fewer bands: ordered dithers
==========================================

`OrderedDither` takes a mask, its size and a strength. At strength 0 every pixel has its nearest colour.
"""

import matplotlib.pyplot as plt
import numpy as np

import clquant

y, x = np.mgrid[:290, :320] / 290  # a low sun in the haze
glow = np.exp(-2.2 * np.hypot(x - 0.7, 1.4 * (y - 0.75)))[..., None]
sky = (np.array([30, 40, 90]) * (1 - glow) + np.array([255, 190, 90]) * glow**0.8 + 40 * y[..., None]).clip(0, 255)
sky = np.rint(sky).astype(np.uint8)

palette = clquant.Palette(["#1c2350", "#6a4a70", "#b07058", "#e8a860", "#fff0c8"])
shown = {}
for mask, size in (("bayer", 8), ("blue-noise", 64)):
    for strength in (0.0, 0.5, 1.0):
        dither = clquant.OrderedDither(mask, size=size, strength=strength)
        shown[f"{mask}, strength {strength}"] = clquant.quantize(sky, palette, dither=dither).to_pil()

figure, axes = plt.subplots(2, 3, figsize=(11, 7), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
