"""
Halftones in parallel, by block size
====================================

Zhang and others, "A Parallel Error Diffusion Implementation on a GPU", show a ramp in blocks of 2 x 2 to 14 x 14
(figure 7; their compiler could not unroll larger blocks) and say that a block of N x N can render N² + 1 tones, so
that 8 x 8 is the least for a ramp of 8 bits. Here errors cross from every first block into its neighbours, so that
small blocks render more tones than that; the seen error says the same as the paper's figure: larger is better.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

SIZES = (2, 4, 8, 12, 14, 32, 64)

# %%
# The ramp's dark end, as the paper shows it: 2 x 2 at the top to 14 x 14 at the bottom, then 32 x 32.
ramp = np.tile(np.linspace(0, 127, 512).astype(np.uint8), (48, 1))
strips = [clquant.PinwheelHalftoner(size).transform(ramp) for size in SIZES[:-1]]
plt.figure(figsize=(10, 8))
plt.imshow(np.concatenate(strips), cmap="gray", interpolation="nearest")
plt.yticks(24 + 48 * np.arange(len(strips)), [f"{size} x {size}" for size in SIZES[:-1]])
plt.xticks([])
plt.tight_layout()

# %%
# Tones: how many of 64 flat fields have a share of white pixels of their own, and how far the worst is from its
# tone; and the error of a picture behind a model of the eye, over that of serial Floyd-Steinberg.
frog = PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("L").crop((130, 80, 450, 370))
gray = np.asarray(frog)
serial = clquant.quality.visual_error(gray, clquant.floyd_steinberg(gray))
tones = np.arange(2, 256, 4)
seen = {"tone-dependent": [], "constant": []}
print("block  N² + 1  tones of 64  worst, gray levels  seen error  with constant weights")
for size in SIZES:
    side = 2 * size * max(2, 24 // size)
    shares = [(clquant.PinwheelHalftoner(size).transform(np.full((side, side), t, np.uint8)) > 0).mean() for t in tones]
    for weights, errors in seen.items():
        halftoned = clquant.PinwheelHalftoner(size, weights=weights).transform(gray)
        errors.append(clquant.quality.visual_error(gray, halftoned) / serial)
    worst = np.abs(255 * np.array(shares) - tones).max()
    print(
        f"{size:5d}  {size * size + 1:6d}  {len(set(shares)):11d}  {worst:18.2f}"
        f"  {seen['tone-dependent'][-1]:10.2f}  {seen['constant'][-1]:21.2f}"
    )

plt.figure()
for weights, errors in seen.items():
    plt.semilogx(SIZES, errors, "o-", base=2, label=weights)
plt.axhline(1, color="gray", linestyle="--", label="serial Floyd-Steinberg")
plt.xlabel("block size")
plt.ylabel("visual error, relative")
plt.legend()
