"""
A portrait on e-paper
=====================

`clquant.panel` dithers to the colours that a panel really shows and packs the controller's frame.
"""

import matplotlib.cbook
import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

from clquant.panel import panel

with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:  # Grace Hopper, US Navy, public domain
    portrait = np.asarray(PIL.Image.open(file).convert("RGB").crop((110, 10, 430, 300)))

shown = {"original": portrait}
for name in ("bwr", "spectra6", "acep7"):
    device = panel(name)
    frame = device.quantize(portrait)
    shown[f"{name}: {len(device.pack(frame))} bytes"] = frame.to_pil()

figure, axes = plt.subplots(2, 2, figsize=(9, 8.4), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
