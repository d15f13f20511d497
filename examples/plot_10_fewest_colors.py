"""
The fewest colours for a quality
================================

`fit_quality` finds the fewest colours that reach a PSNR or a mean squared error.
"""

import matplotlib.cbook
import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:  # Grace Hopper, US Navy, public domain
    portrait = np.asarray(PIL.Image.open(file).convert("RGB").crop((110, 10, 430, 300)))

targets = (24, 28, 32, 35)
engines = [clquant.KMeansPalette(256).fit_quality(portrait, target_psnr=target) for target in targets]
shown = {f"{t} dB: {len(e.palette_)} colours": e.transform(portrait) for t, e in zip(targets, engines, strict=True)}

figure, axes = plt.subplots(2, 2, figsize=(9, 8.4), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
