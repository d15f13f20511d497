"""
The dominant colours of a picture
=================================

`dominant_colors` gives a k-means palette in OKLab with the share of each colour.
"""

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image

import clquant

frog = np.asarray(PIL.Image.open("../docs/images/red_eyed_tree_frog.png").convert("RGB").crop((130, 80, 450, 370)))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.imshow(frog)
left.axis("off")
found = clquant.dominant_colors(frog, 6)
for row, (color, share) in enumerate(found):
    right.barh(row, share, color=color if isinstance(color, str) else np.asarray(color)[:3] / 255)
right.set_yticks(range(len(found)), [str(color) for color, _ in found])
right.invert_yaxis()
right.set_xlabel("share of the pixels")
