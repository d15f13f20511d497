"""
VQ: codebook size against rate and error
========================================

The table of every VQ paper: more codewords, more bits per pixel, less error. The codebook is shared, so it is not
counted. On GPUs: Manohar, Hosein, Kieu and Sankar, "On GPU Acceleration of the Vector Quantization Image Compression
Algorithm".
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

gray = np.asarray(PIL.Image.fromarray(frog).convert("L"))
rates, errors = [], []
print("codewords  bits/pixel   PSNR")
for size in (16, 32, 64, 128, 256):
    codec = clquant.VQCodec(size).fit(gray)
    data = codec.compress(gray, embed_codebook=False)
    rates.append(8 * len(data) / gray.size)
    errors.append(clquant.quality.psnr(gray, codec.decompress(data)))
    print(f"{size:9d}  {rates[-1]:10.3f}  {errors[-1]:5.2f}")

plt.plot(rates, errors, "o-")
plt.xlabel("bits per pixel")
plt.ylabel("PSNR (dB)")
