"""
Four ways to diffuse an error
=============================

`ErrorDiffusion` takes a filter, a strength, a direction of scan and the space of errors. A strength below 1 lets
errors fade, so that none is carried across a picture from colours that the palette cannot mix.
"""

import matplotlib.cbook
import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:  # Grace Hopper, US Navy, public domain
    portrait = np.asarray(PIL.Image.open(file).convert("RGB").crop((110, 10, 430, 300)))

palette = clquant.Palette(["#10141c", "#f0e4d8", "#a86848", "#586078"])
dithers = {
    "strength 1": clquant.ErrorDiffusion("floyd-steinberg"),
    "strength 0.8": clquant.ErrorDiffusion("floyd-steinberg", 0.8),
    "serpentine": clquant.ErrorDiffusion("floyd-steinberg", 1.0, True),
    "errors in Y Cb Cr": clquant.ErrorDiffusion("stucki", 0.9, True, error_space="ycbcr", tile_size=64),
}
shown = {label: clquant.quantize(portrait, palette, dither=dither).to_pil() for label, dither in dithers.items()}

figure, axes = plt.subplots(2, 2, figsize=(9, 8.4), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
