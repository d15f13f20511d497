"""
A smaller animation from a noisy film
=====================================

`animate` gives all frames one palette, holds pixels that hardly change, and writes only what does. Here a camera's
noise over a photograph, a terminal's recording in few colours, and the same photograph for e-paper of three colours.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image
import PIL.ImageDraw

import clquant

photo = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 330, 240)))
rng = np.random.default_rng(0)
camera = [np.clip(photo + rng.normal(0, 2, photo.shape), 0, 255).astype(np.uint8) for _ in range(10)]

terminal, screen = [], PIL.Image.new("RGB", (200, 160), (16, 18, 22))
draw = PIL.ImageDraw.Draw(screen)
for number, letter in enumerate("$ clquant animate clip.mp4"):
    draw.text((8 + 7 * number, 8), letter, (110, 190, 255))
    terminal.append(np.asarray(screen).copy())

films = {
    "camera, quality 100": clquant.animate(camera, dither="bayer8"),
    "camera, quality 85": clquant.animate(camera, dither="bayer8", quality=85),
    "terminal, 16 colours": clquant.animate(terminal, 16),
    "e-paper": clquant.animate(camera, ["black", "white", "red"], dither="bayer8", quality=85, lossy=0),
}

figure, axes = plt.subplots(2, 4, figsize=(12, 5), layout="constrained")
for (above, below), (label, film) in zip(axes.T, films.items(), strict=True):
    first, last = film.frames[0].to_array(), film.frames[-1].to_array()
    above.imshow(last, interpolation="nearest")
    above.set_title(f"{label}: {len(film.to_bytes('GIF')) // 1000} kB")
    below.imshow((first != last).any(axis=2), cmap="gray", interpolation="nearest")
    below.set_title("what has changed")
    above.axis("off")
    below.axis("off")
