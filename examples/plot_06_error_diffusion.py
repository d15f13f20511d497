"""
The parameters of error diffusion
=================================

`ErrorDiffusion` takes a filter, a strength, a direction of scan and the space of errors. A strength below 1 lets
errors fade, so that none is carried across a picture from colours that the palette cannot mix.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

palette = clquant.Palette(["#102010", "#e0e8d0", "#5a8c3c", "#d06030"])
dithers = {
    "strength 1": clquant.ErrorDiffusion("floyd-steinberg"),
    "strength 0.8": clquant.ErrorDiffusion("floyd-steinberg", 0.8),
    "serpentine": clquant.ErrorDiffusion("floyd-steinberg", 1.0, True),
    "errors in Y Cb Cr": clquant.ErrorDiffusion("stucki", 0.9, True, error_space="ycbcr", tile_size=64),
}
shown = {label: clquant.quantize(frog, palette, dither=dither).to_pil() for label, dither in dithers.items()}

figure, axes = plt.subplots(2, 2, figsize=(9, 8.4), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
