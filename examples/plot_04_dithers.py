"""
Sixteen dithers of one sunset
=============================

The same eight colours with each name that `dither=` takes. Magnify the pictures: they differ in grain, not in
colours.
"""

import matplotlib.pyplot as plt
import numpy as np

import clquant

y, x = np.mgrid[:290, :320] / 290  # a low sun in the haze
glow = np.exp(-2.2 * np.hypot(x - 0.7, 1.4 * (y - 0.75)))[..., None]
sky = (np.array([30, 40, 90]) * (1 - glow) + np.array([255, 190, 90]) * glow**0.8 + 40 * y[..., None]).clip(0, 255)
sky = np.rint(sky).astype(np.uint8)

sky = np.ascontiguousarray(sky[40:200, 60:260])
engine = clquant.KMeansPalette(8).fit(sky)
names = [None, "leaky", "search", "blue-noise", "bayer2", "bayer4", "bayer8", "bayer16", "floyd-steinberg", "atkinson"]
names += ["burkes", "jarvis-judice-ninke", "stucki", "sierra", "sierra-two-row", "sierra-lite"]
shown = {name or "no dither": engine.transform(sky, name) for name in names}

figure, axes = plt.subplots(4, 4, figsize=(12, 10.5), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
