"""
A picture for e-paper
=====================

`clquant.panel` dithers to the colours that a panel really shows and packs the controller's frame.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

from clquant.panel import panel

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

shown = {"original": frog}
for name in ("bwr", "spectra6", "acep7"):
    device = panel(name)
    frame = device.quantize(frog)
    shown[f"{name}: {len(device.pack(frame))} bytes"] = frame.to_pil()

figure, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
