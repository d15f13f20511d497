"""
Mosaic art by a quadtree
========================

A region that is not uniform is split in four. Every leaf in its mean, with its outline; every tree is made by the
paper's bottom-up algorithm (Masina and Stedile).
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

shown = {}
for threshold in (40, 20, 10):
    tree = clquant.QuadtreeBuilder(threshold).build(frog)
    shown[f"threshold {threshold}: {len(tree)} leaves"] = tree.render()
for threshold in (40, 20, 10):
    shown[f"outline at {threshold}"] = clquant.QuadtreeBuilder(threshold).build(frog).outline()

figure, axes = plt.subplots(2, 3, figsize=(11, 7), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
