"""
Fast or exact: how much NeuQuant samples
========================================

Bottisti, Mendez and Dechev, "CuNeuQuant", table 1: Dekker's program takes 2.961 microseconds per pixel on one core of
a Core i7, their kernel 0.589 on a GeForce 9800 GTX+: each sample is a group of 256 threads that finds and moves the
winner. `mode="parallel"` takes batches of samples in 64 steps, so that its time hardly grows with the picture, and has
the same bits in every run. The paper prints no error; it stands below. `sample_factor` is Dekker's: every n-th pixel.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

PAPER_US = {"sequential": 2.961, "parallel": 0.589}

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))
large = np.asarray(PIL.Image.fromarray(frog).resize((1280, 960), PIL.Image.Resampling.BICUBIC))

factors = (1, 3, 10, 30)
for mode, paper_us in PAPER_US.items():
    engines = [clquant.NeuQuantCL(256, mode=mode, sample_factor=factor).fit(frog) for factor in factors]
    errors = [clquant.quality.psnr(frog, engine.transform(frog)) for engine in engines]
    begin = time.perf_counter()
    clquant.NeuQuantCL(256, mode=mode).fit_predict(large)
    us = 1e6 * (time.perf_counter() - begin) / (large.size // 3)
    print(f"{mode}: the paper {paper_us} us per pixel, here {us:.3f};", [f"{error:.2f} dB" for error in errors])
    plt.semilogx(factors, errors, "o-", label=mode)
plt.xlabel("sample_factor")
plt.ylabel("PSNR (dB)")
plt.legend()
