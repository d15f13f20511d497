"""Palette makers that people use today, each behind one call: (picture, colours) -> the picture in its palette.

All run without dithering and without a time limit; where a peer has an iteration count it is 10, unless named.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import PIL.Image

from benchmarks.harness import peer

Picture = npt.NDArray[np.uint8]
Method = Callable[[Picture, int], Picture]

CV2, FAISS, SKLEARN, IMAGEQUANT = (peer(name) for name in ("cv2", "faiss", "sklearn.cluster", "imagequant"))
ITERATIONS = 10


def _rounded(centers: npt.NDArray[np.floating]) -> Picture:
    return np.clip(np.rint(centers), 0, 255).astype(np.uint8)


def _pixels(picture: Picture) -> npt.NDArray[np.float32]:
    return picture.reshape(-1, 3).astype(np.float32)


def scikit_learn(picture: Picture, colors: int, iterations: int = ITERATIONS) -> Picture:
    """`sklearn.cluster.KMeans`, k-means++, one start."""
    engine = SKLEARN.KMeans(colors, n_init=1, max_iter=iterations, random_state=0).fit(_pixels(picture))
    return _rounded(engine.cluster_centers_)[engine.labels_].reshape(picture.shape)


def scikit_learn_converged(picture: Picture, colors: int) -> Picture:
    """The same until it stops by itself (its own default, 300 iterations at most)."""
    return scikit_learn(picture, colors, 300)


def opencv(picture: Picture, colors: int) -> Picture:
    """`cv2.kmeans` with k-means++ centers, one attempt."""
    stop = (CV2.TERM_CRITERIA_MAX_ITER, ITERATIONS, 0)
    _, labels, centers = CV2.kmeans(_pixels(picture), colors, None, stop, 1, CV2.KMEANS_PP_CENTERS)
    return _rounded(centers)[labels[:, 0]].reshape(picture.shape)


def faiss(picture: Picture, colors: int) -> Picture:
    """`faiss.Kmeans` as it comes: it trains on 256 pixels a centroid at most, then all pixels are searched."""
    pixels = _pixels(picture)
    engine = FAISS.Kmeans(3, colors, niter=ITERATIONS, seed=1)
    engine.train(pixels)
    _, labels = engine.index.search(pixels, 1)
    return _rounded(engine.centroids)[labels[:, 0]].reshape(picture.shape)


def libimagequant(picture: Picture, colors: int) -> Picture:
    """libimagequant at its default speed."""
    height, width = picture.shape[:2]
    rgba = np.dstack([picture, np.full((height, width), 255, np.uint8)]).tobytes()
    indices, palette = IMAGEQUANT.quantize_raw_rgba_bytes(rgba, width, height, dithering_level=0.0, max_colors=colors)
    table = np.array(palette, np.uint8).reshape(-1, 4)[:, :3]
    return table[np.frombuffer(indices, np.uint8)].reshape(picture.shape)


def _pillow(picture: Picture, colors: int, kmeans: int) -> Picture:
    image = PIL.Image.fromarray(picture)
    method = PIL.Image.Quantize.MEDIANCUT
    made = image.quantize(colors, method=method, kmeans=kmeans, dither=PIL.Image.Dither.NONE)
    return np.asarray(made.convert("RGB"))


def pillow_median_cut(picture: Picture, colors: int) -> Picture:
    """`Image.quantize`, median cut."""
    return _pillow(picture, colors, 0)


def pillow_kmeans(picture: Picture, colors: int) -> Picture:
    """`Image.quantize`, median cut and k-means afterwards."""
    return _pillow(picture, colors, 1)


def methods(slow: bool = True) -> tuple[dict[str, Method], list[str]]:
    """The peers that are installed, by name, and the names of those that are missing.

    Parameters
    ----------
    slow : bool
        Also those that take many seconds for a photo.
    """
    table: list[tuple[str, Method, bool, bool]] = [
        ("scikit-learn, 10 iterations", scikit_learn, SKLEARN is not None, True),
        ("OpenCV, 10 iterations", opencv, CV2 is not None, True),
        ("faiss, 10 iterations", faiss, FAISS is not None, False),
        ("libimagequant", libimagequant, IMAGEQUANT is not None, False),
        ("Pillow, median cut", pillow_median_cut, True, False),
        ("Pillow, median cut + k-means", pillow_kmeans, True, True),
    ]
    found = {name: call for name, call, there, is_slow in table if there and (slow or not is_slow)}
    missing = [name for name, _, there, is_slow in table if not there and (slow or not is_slow)]
    return found, missing
