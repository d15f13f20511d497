"""
Palettes of four skies
======================

Four skies, made of noise at several scales, and the five dominant colours of each, sorted by lightness.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

rng = np.random.default_rng(7)
moods = {
    "dawn": ["#2b1b3d", "#8e3b5e", "#f08a4b", "#ffe3a3"],
    "sea": ["#04202c", "#12626b", "#5ab1bb", "#e9f5db"],
    "field": ["#283618", "#606c38", "#dda15e", "#fefae0"],
    "storm": ["#0d1b2a", "#415a77", "#778da9", "#e0e1dd"],
}
figure, axes = plt.subplots(2, 4, figsize=(12, 4), layout="constrained", height_ratios=(4, 1))
for (top, bottom), (name, colors) in zip(axes.T, moods.items(), strict=True):
    height = np.linspace(0, 1, 128)[:, None] * np.ones((1, 160))
    for size in (4, 8, 16, 32):
        noise = PIL.Image.fromarray(rng.random((size, size), dtype=np.float32))
        height = height + (np.asarray(noise.resize((160, 128), PIL.Image.Resampling.BICUBIC)) - 0.5) / np.sqrt(size)
    stops = clquant.Palette(colors).colors[:, :3]
    places = np.linspace(0, 1, len(stops))
    channels = [np.interp(height, places, stops[:, channel]) for channel in range(3)]
    painting = np.stack(channels, axis=2).astype(np.uint8)
    result = clquant.KMeansPalette(5, color_space="oklab").fit(painting).quantize(painting).sorted("luma")
    top.imshow(painting)
    top.set_title(name)
    bottom.imshow(result.palette.colors[None])
    top.axis("off")
    bottom.axis("off")
