"""Arrays of other libraries, masks, encoded pictures in memory, strided device arrays."""

from __future__ import annotations

import io
import pathlib
import warnings
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import PIL.Image
import pyopencl.array
import pytest
from hypothesis import given, settings

import clquant
from clquant import images, runtime


class WithArray:
    """What xarray and pandas offer."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        return np.array(self.values, dtype, copy=True)


class WithInterface:
    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values
        self.__array_interface__ = values.__array_interface__


class WithDlpack:
    """What every tensor library offers, of host memory."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class OnCuda(WithDlpack):
    """A tensor of PyTorch's in a GPU's memory."""

    detached = False

    def detach(self) -> OnCuda:
        self.detached = True
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def cpu(self) -> WithDlpack:
        assert self.detached
        return WithDlpack(self.values)


@pytest.mark.parametrize("kind", [WithArray, WithInterface, WithDlpack, OnCuda])
@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 3), (3, 5, 4)])
def test_arrays_of_other_libraries_are_their_values(
    kind: Any, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    values = rng.integers(0, 256, shape, dtype=np.uint8)
    assert np.array_equal(images.read(kind(values)).array.reshape(shape), values)


def test_an_error_of_this_library_stays_what_it_is() -> None:
    class Frame:
        def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
            raise runtime.FileError("cannot read frame 4")

    with pytest.raises(runtime.FileError, match=r"^cannot read frame 4"):
        images.read(Frame())


def test_a_library_that_refuses_is_named() -> None:
    class Refuses:
        def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
            raise RuntimeError("not here")

    with pytest.raises(runtime.InvalidType, match=r"image is .*Refu.*, which gives no array: not here"):
        images.read(Refuses())


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    out = io.BytesIO()
    PIL.Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def test_bytes_and_binary_files_hold_pictures(tmp_path: pathlib.Path, rng: np.random.Generator) -> None:
    pixels = rng.integers(0, 256, (4, 6, 3), dtype=np.uint8)
    data = png(pixels)
    file = io.BytesIO(data)
    for source in (data, bytearray(data), file, file):
        assert np.array_equal(images.read(source).array, pixels)
    assert file.tell() == 0
    (tmp_path / "a.png").write_bytes(data)
    with open(tmp_path / "a.png", "rb") as opened:
        engine = clquant.KMeansPalette(4).fit(opened)
        assert engine.quantize(opened).shape == (4, 6)
    with (
        open(tmp_path / "a.png", encoding="latin-1") as text,
        pytest.raises(runtime.FileError, match="open as text; allowed: a file open in binary mode"),
    ):
        images.read(text)
    with pytest.raises(runtime.FileError, match="cannot read"):
        images.read(opened)  # closed by now


def test_masked_pixels_are_transparent(rng: np.random.Generator) -> None:
    for channels in (None, 1, 3, 4):
        shape = (5, 4) if channels is None else (5, 4, channels)
        values = rng.integers(1, 256, shape, dtype=np.uint8)
        mask = np.zeros(shape, bool)
        mask[1, 2] = mask[4, 0, ...] = True
        read = images.read(np.ma.MaskedArray(values, mask)).array
        assert read.shape == (5, 4, 4)
        hidden = np.zeros((5, 4), bool)
        hidden[1, 2] = hidden[4, 0] = True
        assert np.array_equal(read[..., 3] == 0, hidden)
        expected = values.reshape(5, 4, -1)
        expected = np.repeat(expected, 3, axis=2) if expected.shape[2] == 1 else expected
        assert np.array_equal(read[~hidden][:, :3], expected[~hidden][:, :3])
        assert np.array_equal(images.read(np.ma.MaskedArray(values)).array, images.read(values).array)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint32, np.int64, np.uint64, ">i4"])
def test_whole_numbers_from_0_to_255_are_taken(dtype: npt.DTypeLike) -> None:
    values = np.array([[0, 1], [127, 7]], dtype)
    assert np.array_equal(images.read(values).array[:, :, 0], values)


def test_8_bit_values_in_16_bits_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="uint16 with no value above 255"):
        images.read(np.array([[0, 200]], np.uint16))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert images.read(np.array([[0, 4096]], np.uint16)).array.max() == 16
        assert images.read(np.zeros((2, 2), np.uint16)).array.max() == 0


@given(
    st.integers(1, 6), st.integers(1, 6), st.sampled_from([None, 1, 3, 4]), st.sampled_from([1, 2, 3]), st.booleans()
)
@settings(max_examples=25)
def test_strided_device_arrays_are_their_values(h: int, w: int, c: int | None, step: int, turned: bool) -> None:
    queue = runtime.default_queue()
    shape = (3 * h, 3 * w) if c is None else (3 * h, 3 * w, c)
    whole = np.random.default_rng(h * 8 + w).integers(0, 256, shape, dtype=np.uint8)
    view, expected = pyopencl.array.to_device(queue, whole)[::step, 1::step], whole[::step, 1::step]
    if turned:
        axes = (1, 0) if c is None else (1, 0, 2)
        view, expected = view.transpose(axes), expected.transpose(axes)
    picture = images.read(view)
    assert np.array_equal(picture.device_array.get(), expected)


def test_a_cut_device_array_is_mapped_where_it_lies(queue: runtime.CommandQueue, rng: np.random.Generator) -> None:
    whole = rng.integers(0, 256, (40, 30, 4), dtype=np.uint8)
    palette = clquant.Palette([[0, 0, 0], [255, 255, 255], [200, 30, 90]])
    from clquant.palette.engine import predict

    found = predict(pyopencl.array.to_device(queue, whole)[5:30, 3:20, :3], palette)
    assert isinstance(found, pyopencl.array.Array)
    assert np.array_equal(found.get(), predict(np.ascontiguousarray(whole[5:30, 3:20, :3]), palette))


class Labelled(WithArray):
    """What xarray.DataArray offers: the names of dimensions, and Dask's methods, whether or not Dask is inside."""

    def __init__(self, values: npt.NDArray[Any], dims: tuple[str, ...]) -> None:
        super().__init__(values)
        self.dims = dims
        self.chunks = None

    def __dask_graph__(self) -> None:
        return None


@pytest.mark.parametrize("first", ["band", "Channel", "c"])
def test_labelled_arrays_have_their_channels_where_they_say(queue: Any, rng: np.random.Generator, first: str) -> None:
    image = rng.integers(0, 256, (6, 9, 3), dtype=np.uint8)
    engine = clquant.KMeansPalette(4, queue=queue).fit(Labelled(image, ("y", "x", "band")))
    indices = engine.predict(image)
    for labelled in (Labelled(image, ("y", "x", first)), Labelled(image.transpose(2, 0, 1).copy(), (first, "y", "x"))):
        assert np.array_equal(engine.predict(labelled), indices)
    gray = clquant.PinwheelHalftoner(8, queue=queue).transform(image[..., 0].copy())
    assert np.array_equal(
        clquant.PinwheelHalftoner(8, queue=queue).transform(Labelled(image[..., 0], ("y", "x"))), gray
    )
