"""
Every dither side by side
=========================

The same eight colours with each name that `dither=` takes. Magnify the pictures: they differ in grain, not in
colours.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

frog = np.ascontiguousarray(frog[40:200, 60:260])
engine = clquant.KMeansPalette(8).fit(frog)
names = [None, "leaky", "search", "blue-noise", "bayer2", "bayer4", "bayer8", "bayer16", "floyd-steinberg", "atkinson"]
names += ["burkes", "jarvis-judice-ninke", "stucki", "sierra", "sierra-two-row", "sierra-lite"]
shown = {name or "no dither": engine.transform(frog, name) for name in names}

figure, axes = plt.subplots(4, 4, figsize=(12, 10.5), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
