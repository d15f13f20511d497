"""
Less error than plain k-means
=============================

The tutorial "K-Means with OpenCL" takes random pixels as centers, assigns, moves, and stops when nothing changes. It
prints no figures; its kernels are redone here in NumPy. As printed, `recompute_centers` visits the 8 x 8 windows
whose row and column begin at the same offset, those on the picture's diagonal, so that centers know little
of the picture. `init="random"` is the tutorial with every pixel; the default starts from a sketch and moves centers
that are worth little.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

photo = PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370))
frog = np.asarray(photo.resize((160, 145)))


def tutorial_error(picture, k, steps=20):
    """Squared error per pixel after the tutorial's steps, with the windows of its kernel."""
    pixels = picture.reshape(-1, 3).astype(np.float64)
    rows, columns = np.mgrid[: picture.shape[0], : picture.shape[1]]
    visited = (rows // 8 == columns // 8).ravel()
    centers = pixels[np.random.default_rng(0).choice(len(pixels), k, replace=False)]
    assigned = None
    for _ in range(steps):
        before, assigned = assigned, (centers**2).sum(1)[None] - 2 * pixels @ centers.T
        assigned = assigned.argmin(1)
        if before is not None and np.array_equal(before, assigned):
            break
        for i in range(k):
            mine = visited & (assigned == i)
            if mine.any():
                centers[i] = pixels[mine].mean(0)
    return ((pixels - centers[assigned]) ** 2).sum(1).mean()


sizes = (4, 8, 16, 32, 64)
lines = {"the tutorial's kernels": [tutorial_error(frog, k) for k in sizes]}
for label, options in (("the tutorial with every pixel", {"init": "random"}), ("the default", {})):
    engines = [clquant.KMeansPalette(k, **options).fit(frog) for k in sizes]
    lines[label] = [engine.inertia_ / (frog.size // 3) for engine in engines]
print(f"{'squared error per pixel':30s}" + "".join(f"{k:8d}" for k in sizes))
for label, errors in lines.items():
    print(f"{label:30s}" + "".join(f"{error:8.1f}" for error in errors))
    plt.loglog(sizes, errors, "o-", label=label)
plt.xlabel("colours")
plt.ylabel("squared error per pixel")
plt.legend()
