"""
Pinwheel: block size against what the eye sees
==============================================

The pinwheel paper's comparison: the error behind a model of the eye, over that of serial Floyd-Steinberg. Larger
blocks look better, smaller ones have more parallel work.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

gray = np.asarray(PIL.Image.fromarray(frog).convert("L"))
serial = clquant.quality.visual_error(gray, clquant.floyd_steinberg(gray))
sizes = (4, 8, 16, 32, 64)
for weights in ("tone-dependent", "constant"):
    halftoners = [clquant.PinwheelHalftoner(size, weights=weights) for size in sizes]
    errors = [clquant.quality.visual_error(gray, each.transform(gray)) / serial for each in halftoners]
    plt.semilogx(sizes, errors, "o-", base=2, label=weights)
    print(weights, [f"{error:.2f}" for error in errors])
plt.axhline(1, color="gray", linestyle="--", label="serial Floyd-Steinberg")
plt.xlabel("block size")
plt.ylabel("visual error, relative")
plt.legend()
