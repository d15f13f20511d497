"""
An animation without flicker
============================

`animate` gives all frames one palette. An ordered dither looks at each pixel alone, so still parts of the film stay
still.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

frames = [np.ascontiguousarray(frog[:160, shift : shift + 200]) for shift in range(0, 100, 10)]
film = clquant.animate(frames, 32, dither="blue-noise")
print(len(film.frames), "frames,", len(film.frames[0].palette), "colours")
shown = {f"frame {number}": film.frames[number].to_pil() for number in (0, 3, 6, 9)}

figure, axes = plt.subplots(1, 4, figsize=(12, 2.8), layout="constrained")
for ax, (label, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(label)
    ax.axis("off")
