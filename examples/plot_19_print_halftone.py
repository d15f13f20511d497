"""
A halftone for print
====================

One bit per pixel for a printer, four levels for e-paper, and direct binary search, which goes on from the halftone.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

gray = np.asarray(PIL.Image.fromarray(frog).convert("L"))
shown = {
    "gray": gray,
    "2 levels": clquant.PinwheelHalftoner().transform(gray),
    "4 levels": clquant.PinwheelHalftoner(levels=4).transform(gray),
    "2 levels, refine=2": clquant.PinwheelHalftoner().transform(gray, refine=2),
}

figure, axes = plt.subplots(2, 2, figsize=(9, 8.4), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, cmap="gray", interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
