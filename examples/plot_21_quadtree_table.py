"""
Quadtrees: threshold against leaves and error
=============================================

The quadtree paper's figures for one picture: how many leaves a threshold leaves, and what they lose. Both methods
give the same tree.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

print("threshold  leaves   PSNR  equal trees")
thresholds = (5, 8, 13, 20, 30)
leaves = []
for threshold in thresholds:
    tree = clquant.QuadtreeBuilder(threshold).build(frog)
    other = clquant.QuadtreeBuilder(threshold, method="top-down").build(frog)
    equal = np.array_equal(tree.leaves(), other.leaves())
    leaves.append(len(tree))
    print(f"{threshold:9d}  {len(tree):6d}  {tree.compression()['psnr']:5.2f}  {equal}")
plt.loglog(thresholds, leaves, "o-")
plt.xlabel("threshold (gray levels)")
plt.ylabel("leaves")
