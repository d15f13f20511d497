"""
A ramp in black and white dots
==============================

Block-interlaced pinwheel error diffusion (Li and Allebach; on GPUs Zhang and others) beside serial Floyd-Steinberg,
at several block sizes.
"""

import matplotlib.pyplot as plt
import numpy as np

import clquant

ramp = np.tile(np.rint(np.linspace(0, 255, 640)).astype(np.uint8), (48, 1))
shown = {"serial Floyd-Steinberg": clquant.floyd_steinberg(ramp)}
for size in (8, 16, 32, 64):
    shown[f"pinwheel, block {size}"] = clquant.PinwheelHalftoner(size).transform(ramp)

figure, axes = plt.subplots(5, 1, figsize=(9, 5.4), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
