"""
A photograph in 64, 16 and 4 colours
====================================

`KMeansPalette` counts the distinct colours of a picture, finds centers by Lloyd's k-means over them, and maps every
pixel to its nearest colour. The result is the same on every device.
"""

import matplotlib.cbook
import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:  # Grace Hopper, US Navy, public domain
    portrait = np.asarray(PIL.Image.open(file).convert("RGB").crop((110, 10, 430, 300)))

shown = {"original": portrait}
for n_colors in (64, 16, 4):
    engine = clquant.KMeansPalette(n_colors).fit(portrait)
    result = engine.transform(portrait)
    shown[f"{n_colors} colours, {clquant.quality.psnr(portrait, result):.1f} dB"] = result

figure, axes = plt.subplots(2, 2, figsize=(9, 8.4), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
