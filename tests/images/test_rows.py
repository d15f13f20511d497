"""Rows of colours or vectors in the place of a picture are one clear error; gray pictures are not."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest

import clquant
from clquant.images.rows import MOST_COLUMNS, refuse_rows


def zeros(*shape: int, dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[np.generic]:
    return np.zeros(shape, dtype)


ROWS = [
    zeros(65, 3),
    zeros(1000, 4, dtype=np.uint16),
    zeros(1000, 128, dtype=np.float32),
    zeros(5000, 128),
    zeros(100, 2),
]
PICTURES = [
    zeros(4096, 128),
    np.lib.stride_tricks.as_strided(zeros(1), (1 << 20, 2049), (0, 0)),
    zeros(12, 3),
    zeros(64, 3),
    zeros(400, 100, dtype=np.float64),
    zeros(500, 1),
]


@pytest.mark.parametrize("rows", ROWS, ids=lambda rows: str(rows.shape))
def test_rows_are_refused(rows: npt.NDArray[np.generic]) -> None:
    with pytest.raises(clquant.InvalidArgument, match=re.escape(f"{rows.shape}") + ".*VectorQuantizer"):
        refuse_rows(rows)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: str(picture.shape))
def test_gray_pictures_are_none(picture: npt.NDArray[np.generic]) -> None:
    refuse_rows(picture)
    refuse_rows(picture[:, :, None])
    refuse_rows(zeros(5000, 3)[:, :, None])
    refuse_rows(PIL.Image.new("L", (3, 5000)))


def test_a_lazy_picture_is_named_by_its_shape() -> None:
    class Stored:
        shape, ndim, dtype = (5000, 128), 2, np.dtype(np.uint8)

    with pytest.raises(clquant.InvalidArgument, match=r"gray picture the shape \(5000, 128, 1\)"):
        refuse_rows(Stored())


def test_most_columns_are_those_of_vectors() -> None:
    with pytest.raises(clquant.InvalidArgument, match=f"at most {MOST_COLUMNS}$"):
        clquant.VectorQuantizer(2).fit(zeros(4, MOST_COLUMNS + 1))


@pytest.mark.parametrize(
    "learn",
    [
        clquant.KMeansPalette(4).fit,
        clquant.KMeansPalette(4).fit_predict,
        clquant.KMeansPalette(4).fit_transform,
        lambda rows: clquant.KMeansPalette(4).fit_quality(rows, target_psnr=30),
        clquant.NeuQuantCL(4).fit,
        clquant.SpatialPalette(4).fit,
        clquant.TilePalettes(4).fit,
        clquant.ColorHistogram.of,
        lambda rows: clquant.quantize(rows, 4),
        lambda rows: clquant.quantize(rows, 4, dither=True),
        lambda rows: clquant.quantize(rows, ["black", "white"]),
        clquant.dominant_colors,
        lambda rows: clquant.animate([rows, rows], 4),
        lambda rows: list(clquant.video.frames([rows])),
        lambda rows: clquant.KMeansPalette(4).fit([np.zeros((8, 8, 3), np.uint8), rows]),
    ],
)
def test_every_learner_names_what_is_allowed(learn: object) -> None:
    assert callable(learn)
    with pytest.raises(clquant.InvalidArgument, match=r"reshape\(h, w, 3\).*clquant\.VectorQuantizer"):
        learn(np.zeros((4096, 3), np.uint8))
