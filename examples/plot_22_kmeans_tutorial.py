"""
k-means as in the tutorial, and with swaps
==========================================

`init="random"` is the plain tutorial of k-means: random colours, assign, move, until nothing changes. The default
starts from a sketch and moves centers that are worth little. The error falls with the number of colours; the default
is below the tutorial's.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

sizes = (4, 8, 16, 32, 64)
for label, options in (("the tutorial", {"init": "random"}), ("the default", {})):
    inertias = [clquant.KMeansPalette(k, **options).fit(frog).inertia_ / (frog.size // 3) for k in sizes]
    print(label, [f"{inertia:.1f}" for inertia in inertias])
    plt.loglog(sizes, inertias, "o-", label=label)
plt.xlabel("colours")
plt.ylabel("squared error per pixel")
plt.legend()
