"""
NeuQuant: the sampling factor
=============================

Dekker's program takes one pixel in `sample_factor`; the CuNeuQuant table puts quality beside it. The
parallel map loses less by few samples.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

factors = (1, 3, 10, 30)
for mode in ("sequential", "parallel"):
    engines = [clquant.NeuQuantCL(256, mode=mode, sample_factor=factor).fit(frog) for factor in factors]
    errors = [clquant.quality.psnr(frog, engine.transform(frog)) for engine in engines]
    print(mode, [f"{error:.2f} dB" for error in errors])
    plt.semilogx(factors, errors, "o-", label=mode)
plt.xlabel("sample_factor")
plt.ylabel("PSNR (dB)")
plt.legend()
