"""
The fewest colours for a quality
================================

`fit_quality` finds the fewest colours that reach a PSNR or a mean squared error.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

targets = (24, 28, 32, 35)
engines = [clquant.KMeansPalette(256).fit_quality(frog, target_psnr=target) for target in targets]
shown = {f"{t} dB: {len(e.palette_)} colours": e.transform(frog) for t, e in zip(targets, engines, strict=True)}

figure, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
