"""Alpha of 0 or 255 alone, on the host and on devices."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pyopencl.array
import pytest

from clquant import KMeansPalette, alpha_edges, runtime
from clquant.cli import main


def soft(height, width):
    image = np.random.default_rng(3).integers(0, 256, (height, width, 4), np.uint8)
    image[..., 3] = np.linspace(0, 255, width).round().astype(np.uint8)
    return image


@pytest.mark.parametrize("edges", ["binary", "dithered"])
def test_device_and_host_agree_and_colours_stay(queue, edges):
    image = soft(70, 131)
    found = alpha_edges(image, edges)
    assert np.array_equal(found[..., :3], image[..., :3])
    assert set(np.unique(found[..., 3])) == {0, 255}
    assert (found[image[..., 3] == 0][:, 3] == 0).all()
    assert (found[image[..., 3] == 255][:, 3] == 255).all()
    on_device = alpha_edges(pyopencl.array.to_device(queue, image), edges)
    assert isinstance(on_device, runtime.Array)
    assert np.array_equal(on_device.get(), found)


def test_binary_edges_are_at_half():
    image = np.zeros((1, 256, 4), np.uint8)
    image[0, :, 3] = np.arange(256)
    assert np.array_equal(alpha_edges(image, "binary")[0, :, 3] == 255, np.arange(256) >= 128)


def test_dithered_edges_keep_the_mean():
    for level in (1, 40, 128, 200, 254):
        image = np.full((64, 64, 4), level, np.uint8)
        shown = np.count_nonzero(alpha_edges(image, "dithered")[..., 3])
        assert abs(shown - level * 4096 / 255) <= 1


def test_a_palette_of_settled_edges_has_one_hole_and_no_other_alpha(queue):
    palette = KMeansPalette(8, queue=queue).fit(alpha_edges(soft(40, 60), "binary")).palette_
    assert sorted(set(palette.rgba()[:, 3])) == [0, 255]


def test_pictures_without_alpha_and_wrong_names(queue):
    image = soft(5, 6)[..., :3].copy()
    assert np.array_equal(alpha_edges(image), image)
    assert np.array_equal(alpha_edges(image[..., 0]), image[..., 0])
    device = pyopencl.array.to_device(queue, image)
    assert np.array_equal(alpha_edges(device).get(), image)
    with pytest.raises(runtime.InvalidArgument, match="edges is 'soft'; allowed"):
        alpha_edges(image, "soft")


@pytest.mark.full
@pytest.mark.parametrize(("alpha", "partial"), [("palette", True), ("binary", False), ("dithered", False)])
def test_the_command_settles_alpha(tmp_path, alpha, partial):
    PIL.Image.fromarray(soft(30, 40)).save(tmp_path / "soft.png")
    target = tmp_path / "few.png"
    assert main(["palette", str(tmp_path / "soft.png"), "-k", "8", "--alpha", alpha, "-o", str(target), "-q"]) == 0
    with PIL.Image.open(target) as image:
        levels = np.unique(np.asarray(image.convert("RGBA"))[..., 3])
    assert ({*levels} != {0, 255}) is partial
