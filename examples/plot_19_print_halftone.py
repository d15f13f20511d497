"""
A portrait in dots of ink
=========================

One bit per pixel for a printer, four levels for e-paper, and direct binary search, which goes on from the halftone.
"""

import matplotlib.cbook
import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:  # Grace Hopper, US Navy, public domain
    portrait = np.asarray(PIL.Image.open(file).convert("RGB").crop((110, 10, 430, 300)))

gray = np.asarray(PIL.Image.fromarray(portrait).convert("L"))
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
