"""
A palette that keeps a brand's colours
======================================

`fixed_colors` stay exactly as given, first in the palette; the others are fitted around them. Here a logo's two
colours are kept.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

engine = clquant.KMeansPalette(8, fixed_colors=["#ff7700", "#ffffff"]).fit(frog)
shown = {
    "8 colours": clquant.KMeansPalette(8).fit(frog).transform(frog),
    "8 colours, two of them fixed": engine.transform(frog),
    "the palette": engine.palette_.colors[None],
}

figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")

print(engine.palette_.colors[:2])
