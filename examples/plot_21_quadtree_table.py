"""
A picture in squares, level by level
====================================

Masina and Stedile, "Parallelizing Quadtree Image Decomposition with mixed approaches", build the complete tree of a
1024 x 1024 picture, 4 nodes for each of the level above, in 147.8 ms at best (table 1; an NVIDIA V100 and eight
threads of a Xeon, from pixels on the host to the array on the host). Here that array is `to_array`; it is made from the
leaves, which are most of what anyone wants and take a hundredth of its memory. Top-down and bottom-up, two
algorithms there, give equal trees.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

PAPER_MS = 147.8

frog = PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370))
large = np.asarray(frog.resize((1024, 1024)))
builder = clquant.QuadtreeBuilder(13)
times = {"leaves": [], "complete array": []}
for _ in range(4):
    begin = time.perf_counter()
    tree = builder.build(large)
    between = time.perf_counter()
    nodes = tree.to_array()
    times["leaves"].append(1e3 * (between - begin))
    times["complete array"].append(1e3 * (time.perf_counter() - begin))
print(f"{len(nodes)} nodes, the report: {(4**11 - 1) // 3}; {len(tree)} leaves")
print(f"complete array: {min(times['complete array']):.1f} ms here, {PAPER_MS} ms in the report")
print(f"leaves alone: {min(times['leaves']):.1f} ms here")

# %%
# The report's figures 5 and 6: the tree level by level.
figure, axes = plt.subplots(1, 4, figsize=(12, 3))
for axis, frame in zip(axes, list(tree.frames())[3:7], strict=True):
    axis.imshow(frame)
    axis.axis("off")
plt.tight_layout()

# %%
# Thresholds: how many leaves they leave, and what is lost.
small = np.asarray(frog)
print("threshold  leaves   PSNR  equal trees")
thresholds = (5, 8, 13, 20, 30)
leaves = []
for threshold in thresholds:
    tree = clquant.QuadtreeBuilder(threshold).build(small)
    other = clquant.QuadtreeBuilder(threshold, method="top-down").build(small)
    equal = np.array_equal(tree.leaves(), other.leaves())
    leaves.append(len(tree))
    print(f"{threshold:9d}  {len(tree):6d}  {tree.compression()['psnr']:5.2f}  {equal}")
plt.figure()
plt.loglog(thresholds, leaves, "o-")
plt.xlabel("threshold (gray levels)")
plt.ylabel("leaves")
