"""
Bits against quality of a VQ codec
==================================

Manohar, Hosein, Kieu and Sankar, "On GPU Acceleration of the Vector Quantization Image Compression Algorithm", time
512 x 512 gray pictures in 4 x 4 blocks and codebooks of 128 to 1024 codewords (tables I to III; NumPy on a Core
i7-12650H, their kernel on an RTX 3050 Ti). They print no quality, as plain VQ has the same on every machine; it
stands beside the times here. The time grows with the codebook, for both must look at every codeword; here a CPU
looks at 16 blocks at once, in whole numbers and without the square root, which does not change which is nearest.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

PAPER_MS = {128: (183.4, 2.99, 0.340), 256: (262.6, 5.90, 0.259), 512: (405.4, 11.7, 0.274), 1024: (690.7, 23.1, 0.306)}

frog = PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("L").crop((100, 60, 470, 370))
gray = np.asarray(frog.resize((512, 512)))


def least_ms(call, *arguments):
    took = []
    for _ in range(20):
        begin = time.perf_counter()
        call(*arguments)
        took.append(1e3 * (time.perf_counter() - begin))
    return min(took)


print("           encode, ms                decode, ms         this picture")
print("codewords   NumPy  paper's GPU  here  paper's GPU  here  bits/pixel   PSNR")
rates, errors = [], []
for size, (numpy_ms, gpu_ms, decode_ms) in PAPER_MS.items():
    codec = clquant.VQCodec(size).fit(gray)
    indices = codec.encode(gray)
    rates.append(np.log2(size) / 16)
    errors.append(clquant.quality.psnr(gray, codec.decode(indices)))
    here = least_ms(codec.encode, gray), least_ms(codec.decode, indices)
    print(
        f"{size:9d}  {numpy_ms:6.1f}  {gpu_ms:11.2f}  {here[0]:4.2f}  {decode_ms:11.2f}  {here[1]:4.2f}"
        f"  {rates[-1]:10.3f}  {errors[-1]:5.2f}"
    )

plt.plot(rates, errors, "o-")
plt.xlabel("bits per pixel of bare indices")
plt.ylabel("PSNR (dB)")
