"""
The best look in 8 colours
==========================

`SpatialPalette` fits the palette together with its dithering: colours lie farther out than the means of k-means, so
that mixtures reach all colours of the picture (Puzicha and others, 2000).
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

means = clquant.KMeansPalette(8).fit(frog)
spatial = clquant.SpatialPalette(8).fit(frog)
shown = {
    "original": frog,
    "k-means, nearest": means.transform(frog),
    "k-means, Floyd-Steinberg": means.transform(frog, "floyd-steinberg"),
    "SpatialPalette": spatial.transform(frog),
}

figure, axes = plt.subplots(2, 2, figsize=(9, 8.4), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")

for name, picture in shown.items():
    print(f"{name}: {clquant.quality.blurred_color_difference(frog, picture):.2f} CIEDE2000 after a blur")
