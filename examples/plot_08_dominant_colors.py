"""
The main colours of a picture and their shares
==============================================

`dominant_colors` gives a k-means palette in OKLab with the share of each colour.
"""

import matplotlib.pyplot as plt
import numpy as np

import clquant

y, x = np.mgrid[:290, :320] / 290  # a low sun in the haze
glow = np.exp(-2.2 * np.hypot(x - 0.7, 1.4 * (y - 0.75)))[..., None]
sky = (np.array([30, 40, 90]) * (1 - glow) + np.array([255, 190, 90]) * glow**0.8 + 40 * y[..., None]).clip(0, 255)
sky = np.rint(sky).astype(np.uint8)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.imshow(sky)
left.axis("off")
found = clquant.dominant_colors(sky, 6)
for row, (color, share) in enumerate(found):
    right.barh(row, share, color=color if isinstance(color, str) else np.asarray(color)[:3] / 255)
right.set_yticks(range(len(found)), [str(color) for color, _ in found])
right.invert_yaxis()
right.set_xlabel("share of the pixels")
