"""
Colours as the eye compares them
================================

`color_space=` decides what "near" means: 8-bit values, light, or OKLab, which is nearest to the eye.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

shown = {"original": frog}
for space in ("srgb", "linear", "oklab"):
    shown[f'12 colours, "{space}"'] = clquant.KMeansPalette(12, color_space=space).fit(frog).transform(frog)

figure, axes = plt.subplots(2, 2, figsize=(9, 8.4), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
