"""
What a VQ codebook looks like
=============================

`VQCodec` learns blocks of pixels. Each square is one codeword, 4 x 4 RGB pixels; below, the picture through the
codebook.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

codec = clquant.VQCodec(128, (4, 4)).fit(frog)
blocks = codec.codebook_.reshape(8, 16, 4, 4, 3)
sheet = np.full((8, 16, 5, 5, 3), 255, np.uint8)
sheet[:, :, :4, :4] = blocks
figure, axes = plt.subplots(2, 1, figsize=(7, 9), layout="constrained", height_ratios=(1, 2))
axes[0].imshow(sheet.transpose(0, 2, 1, 3, 4).reshape(40, 80, 3), interpolation="nearest")
axes[1].imshow(codec.decode(codec.encode(frog), frog.shape[:2]))
for ax in axes:
    ax.axis("off")
