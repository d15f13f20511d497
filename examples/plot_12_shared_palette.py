"""
One palette for all tiles of a map
==================================

A `ColorHistogram` counts colours exactly and adds up. So a palette learned from parts, in any order or on several
machines, has the bits of one learned from all pixels at once.
"""

import matplotlib.cbook
import matplotlib.colors
import matplotlib.pyplot as plt
import numpy as np

import clquant

with matplotlib.cbook.get_sample_data("jacksboro_fault_dem.npz") as file:  # heights by the US Geological Survey
    heights = file["elevation"]
light = matplotlib.colors.LightSource(315, 45)
land = light.shade(heights, plt.cm.gist_earth, vert_exag=0.05, blend_mode="soft")[..., :3]
land = np.rint(255 * land).astype(np.uint8)

tiles = [np.ascontiguousarray(land[y : y + 96, x : x + 96]) for y in (0, 96, 192) for x in (0, 96, 192)]
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
