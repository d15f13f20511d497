"""
A palette by Dekker's NeuQuant
==============================

`NeuQuantCL` has two maps: Dekker's program of 1994, bit for bit, and a parallel form with less error. The palette is
a chain of nodes, so that neighbours in it are similar colours.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

shown = {}
for mode in ("sequential", "parallel"):
    engine = clquant.NeuQuantCL(64, mode=mode).fit(frog)
    result = engine.transform(frog)
    shown[f"{mode}: MSE {clquant.quality.mse(frog, result):.1f}"] = result
    shown[f"the chain of the {mode} map"] = engine.palette_.colors[np.arange(64).reshape(4, 16)]

figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
