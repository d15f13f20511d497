"""
One palette for many tiles
==========================

A `ColorHistogram` counts colours exactly and adds up. So a palette learned from parts, in any order or on several
machines, has the bits of one learned from all pixels at once.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

tiles = [np.ascontiguousarray(frog[y : y + 96, x : x + 96]) for y in (0, 96, 192) for x in (0, 96, 192)]
total = clquant.ColorHistogram.of(tiles[0])
for tile in tiles[1:]:
    total = total + clquant.ColorHistogram.of(tile)
shared = clquant.KMeansPalette(16).fit_histogram(total)
at_once = clquant.KMeansPalette(16).fit(tiles)
print("equal bits:", np.array_equal(shared.palette_.colors, at_once.palette_.colors))
shown = {f"tile {number}": shared.transform(tile) for number, tile in enumerate(tiles)}

figure, axes = plt.subplots(3, 3, figsize=(7, 7.4), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
