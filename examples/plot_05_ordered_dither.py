"""
The strength of an ordered dither
=================================

`OrderedDither` takes a mask, its size and a strength. At strength 0 every pixel has its nearest colour.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

palette = clquant.Palette(["black", "white", "#2e5d1c", "#c33", "#3a6ea5"])
shown = {}
for mask, size in (("bayer", 8), ("blue-noise", 64)):
    for strength in (0.0, 0.5, 1.0):
        dither = clquant.OrderedDither(mask, size=size, strength=strength)
        shown[f"{mask}, strength {strength}"] = clquant.quantize(frog, palette, dither=dither).to_pil()

figure, axes = plt.subplots(2, 3, figsize=(11, 7), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
