"""
A sprite with a soft edge
=========================

Transparent pixels stay transparent. Partly transparent edges either get palette entries with alpha, or become opaque
or transparent.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

row, column = np.mgrid[:96, :96]
distance = np.hypot(row - 47.5, column - 47.5)
sprite = np.zeros((96, 96, 4), np.uint8)
sprite[..., :3] = frog[100:196, 120:216]
sprite[..., 3] = np.clip((46 - distance) / 6, 0, 1) * 255
shown = {}
for how in ("palette", "binary", "dithered"):
    image = sprite if how == "palette" else clquant.alpha_edges(sprite, how)
    result = clquant.KMeansPalette(16).fit(image).quantize(image)
    shown[f"alpha: {how}"] = result.to_pil().convert("RGBA")

figure, axes = plt.subplots(1, 3, figsize=(9, 3.3), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")

figure.set_facecolor("#b0d0f0")
