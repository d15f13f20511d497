"""
A palette by k-means
====================

`KMeansPalette` counts the distinct colours of a picture, finds centers by Lloyd's k-means over them, and maps every
pixel to its nearest colour. The result is the same on every device.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

shown = {"original": frog}
for n_colors in (64, 16, 4):
    engine = clquant.KMeansPalette(n_colors).fit(frog)
    result = engine.transform(frog)
    shown[f"{n_colors} colours, {clquant.quality.psnr(frog, result):.1f} dB"] = result

figure, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
