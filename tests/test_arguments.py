"""What the fuzzer found: arguments that nobody should pass end in an error that names them, or in a right answer."""

from __future__ import annotations

import io
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageSequence
import pytest

import clquant
from clquant import images, panel, params, quality, runtime
from clquant.cli import main
from clquant.images import files
from clquant.runtime import FileError, InvalidArgument, InvalidType
from clquant.video import animation
from portability.inputs import photo


class Nameless:
    def __repr__(self) -> str:
        raise ZeroDivisionError


def test_values_are_shown_whatever_they_are() -> None:
    assert params.shown(Nameless()) == "a Nameless"
    assert params.shown(10**5000) == "a int"
    assert len(params.shown("x" * 1000)) == 80
    assert params.shown([np.zeros((2, 1))]) == "[array([[0.],        [0.]])]"
    on_device = runtime.open_session().new_array((3, 4), np.uint8)
    assert params.shown(on_device[:, ::2]) == "device array of shape (3, 2), dtype uint8"


@pytest.mark.parametrize("value", [10**5000, -(10**5000)], ids=["high", "low"])
def test_numbers_of_thousands_of_digits_are_out_of_range(value: int) -> None:
    with pytest.raises(InvalidArgument, match="n is a int; allowed: an integer from 1 to 3"):
        params.integer("n", value, 1, 3)
    with pytest.raises(InvalidArgument, match="x is inf; allowed"):
        params.real("x", 10**400, 0)


@pytest.mark.full
@pytest.mark.parametrize("number", [np.uint8, np.int16, np.uint64], ids=lambda kind: kind.__name__)
def test_numbers_of_numpy_are_numbers(number: type[np.integer[Any]]) -> None:
    """Whatever their width: nothing is computed in it."""
    picture = photo(24, 40)
    gray = picture[..., 0]

    def results(n: Callable[[int], Any]) -> list[Any]:
        codec = clquant.VQCodec(n(9), (n(2), n(3)), max_iter=n(3), random_state=n(7), state_size=n(3), tolerance=n(200))
        indices = codec.fit(picture).encode(picture)
        palettes = [
            clquant.KMeansPalette(n(20), max_iter=n(5), n_init=n(2), swap_rounds=n(3), random_state=n(9)).fit(picture),
            clquant.NeuQuantCL(n(100), sample_factor=n(3), refine_steps=n(2), random_state=n(9)).fit(picture),
            clquant.NeuQuantCL(n(100), mode="sequential", sample_factor=n(3)).fit(picture),
        ]
        return [
            *(engine.palette_.colors for engine in palettes),
            clquant.NeuQuantCL(n(16)).fit_many([picture, picture])[1].colors,
            codec.decode(indices, (n(24), n(40), n(3))),
            np.frombuffer(codec.compress(picture), np.uint8),
            clquant.PinwheelHalftoner(n(16), levels=n(100), random_state=n(9)).transform(gray),
            clquant.QuadtreeBuilder(n(13), max_depth=n(4), min_size=n(2)).leaves(picture),
            quality.psnr(gray, picture[..., 1], n(255 if number is not np.int16 else 300)),
            quality.ssim(gray, picture[..., 1], n(255)),
            len(animation.gif_bytes([_DRAWN], delay_ms=n(50))),
            clquant.OrderedDither("bayer", size=n(4)).thresholds(),
        ]

    for got, expected in zip(results(number), results(int), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.full
def test_a_shape_of_thousands_of_digits_is_out_of_range() -> None:
    codec = clquant.VQCodec(2, (4, 4)).fit(photo(8, 8))
    with pytest.raises(InvalidArgument, match=r"shape\[1\] is a int; allowed: an integer from 1 to 2147483647"):
        codec.decode(np.zeros((2, 2), np.uint8), [8, 10**5000])
    with pytest.raises(InvalidType, match="allowed: integers"):
        codec.decode(np.zeros((2, 2), "m8[s]"))


def test_time_spans_are_no_numbers() -> None:
    for check in (params.integer, params.real):
        with pytest.raises(InvalidType, match=r"n is .*timedelta64.*; allowed"):
            check("n", np.timedelta64(5, "s"), 0)


_RAGGED: Any = [[1, 2], [3]]
_MASKED: Any = np.ma.array(photo(4, 4), mask=np.arange(48).reshape(4, 4, 3) == 0)
_LEARNED = clquant.Palette([(0, 0, 0), (9, 9, 9), (200, 0, 0)])
_DRAWN = clquant.IndexedImage(np.arange(6).reshape(2, 3) % 3, _LEARNED)


def _closed() -> io.BytesIO:
    made = io.BytesIO()
    made.close()
    return made


def _no_text() -> Any:
    return np.zeros(3)


@pytest.mark.full
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: _LEARNED.take("ab"), InvalidType, "indices"),  # type: ignore[arg-type]
        (lambda: _LEARNED.take(np.array([3])), InvalidArgument, "indices goes from 3 to 3; allowed: 0 to 2"),
        (lambda: _LEARNED.take(np.array([-1])), InvalidArgument, "indices"),
        (lambda: _LEARNED.take(np.zeros((2, 2), int)), InvalidArgument, r"indices has shape \(2, 2\)"),
        (lambda: _LEARNED.hex(limit=0.5), InvalidType, "limit"),  # type: ignore[arg-type]
        (lambda: _LEARNED.hex(limit=-1), InvalidArgument, "limit"),
        (lambda: clquant.Palette(_RAGGED), InvalidArgument, "colors"),
        (lambda: clquant.IndexedImage(_RAGGED, _LEARNED), InvalidArgument, "indices"),
        (lambda: _DRAWN.to_bytes(_no_text()), InvalidType, "format"),
        (lambda: _DRAWN.to_bytes("PNG", dpi="much"), InvalidArgument, "cannot write the picture as 'PNG'"),
        (lambda: _DRAWN.save("x.png", _no_text()), InvalidType, "format"),
        (lambda: _DRAWN.save(4), InvalidType, "path is 4"),  # type: ignore[arg-type]
        (lambda: _LEARNED.write("x.gpl", _no_text()), InvalidArgument, "format"),
        (lambda: _LEARNED.write(4), InvalidType, "path is 4"),  # type: ignore[arg-type]
        (lambda: clquant.Palette.read("/dev/null", _no_text()), InvalidArgument, "format"),
        (lambda: animation.gif_bytes(3), InvalidType, "frames"),  # type: ignore[arg-type]
        (lambda: animation.gif_bytes([3]), InvalidType, "frames"),  # type: ignore[list-item]
        (lambda: animation.quantize_frames(3, [photo(4, 4)]), InvalidType, "learner"),  # type: ignore[arg-type]
        (lambda: animation.quantize_frames(clquant.KMeansPalette(), photo(4, 4)), InvalidType, "frames"),
        (lambda: animation.quantize_frames(clquant.KMeansPalette(), [photo(4, 4)], shared=_no_text()), InvalidType,
         "shared"),
        (lambda: clquant.KMeansPalette().stream("photo.png"), InvalidType,  # type: ignore[arg-type]
         "images is 'photo.png'; allowed: an iterable of images"),
        (lambda: clquant.KMeansPalette().stream(photo(4, 4)[:, :, 0]), InvalidType, "images is array"),
        (lambda: clquant.KMeansPalette().stream(3), InvalidType, "images is 3"),  # type: ignore[arg-type]
        (lambda: clquant.KMeansPalette().fit(photo(4, 4), _RAGGED), InvalidArgument, "sample_weight"),
        (lambda: clquant.VQCodec(2).fit(photo(8, 8), np.array(1.0)), InvalidType, "sample_weight is array of shape"),
        (lambda: clquant.KMeansPalette().fit([photo(4, 4)], 3), InvalidType, "sample_weight is 3"),
        (lambda: clquant.KMeansPalette().fit_quality(photo(4, 4), max_mse=Nameless()),  # type: ignore[arg-type]
         InvalidType, "max_mse is a Nameless"),
        (lambda: clquant.KMeansPalette().fit_quality(photo(4, 4), max_mse=1, target_psnr=Nameless()),  # type: ignore[arg-type]
         InvalidArgument, "target_psnr is a Nameless"),
        (lambda: clquant.OrderedDither().dither(photo(4, 4), _LEARNED, color_space=["a"]),  # type: ignore[arg-type]
         InvalidArgument, "color_space"),
        (lambda: clquant.OrderedDither().dither(photo(4, 4), _LEARNED, progress=3), InvalidType,  # type: ignore[arg-type]
         "progress"),
        (lambda: clquant.QuadtreeBuilder().build(photo(4, 4)).find(_RAGGED, np.zeros(2, int)), InvalidArgument, "x"),
        (lambda: clquant.KMeansPalette(queue="gpu").fit(photo(4, 4)), InvalidType,  # type: ignore[arg-type]
         r"queue is 'gpu'; allowed: .*default_queue\('gpu'\) gives one"),
        (lambda: clquant.KMeansPalette().fit(photo(4, 4)).predict(photo(4, 4), 3), InvalidType,
         "dither is 3; allowed: None, a bool, 'atkinson'"),
        (lambda: runtime.default_queue(3), InvalidType, "device is 3"),  # type: ignore[arg-type]
        (lambda: runtime.find_device(3), InvalidType, "device is 3"),  # type: ignore[arg-type]
        (lambda: clquant.KMeansPalette(2).fit(photo(4, 4)).score([]), InvalidArgument, "images is empty"),
        (lambda: clquant.VectorQuantizer(2, n_init=1001).fit(np.eye(3)), InvalidArgument, "n_init is 1001; allowed"),
        (lambda: clquant.ProductQuantizer(1, 1, n_init=1001).fit(np.eye(3)), InvalidArgument, "n_init is 1001"),
        (lambda: clquant.scalar_codebook([1, 2], 1, progress=3), InvalidType, "progress is 3"),  # type: ignore[arg-type]
        (lambda: clquant.animate([photo(4, 4)] * 2, 4, queue=3).to_bytes("gif"), InvalidType,  # type: ignore[arg-type]
         "queue is 3; allowed"),
        (lambda: clquant.video.frames(np.array(8)), InvalidArgument, "frames is array of shape"),
        (lambda: clquant.Animation(3, [40]), InvalidType, "frames is 3; allowed"),  # type: ignore[arg-type]
        (lambda: clquant.Animation([3], [40]), InvalidType, "frames holds 3"),  # type: ignore[list-item]
        (lambda: clquant.Animation([], []), InvalidArgument, "frames are none"),
        (lambda: clquant.Animation([_DRAWN] * 2, [40]), InvalidArgument, "delays_ms has 1; allowed"),
        (lambda: clquant.Animation([_DRAWN], [4]), InvalidArgument, r"delays_ms\[0\] is 4; allowed"),
        (lambda: clquant.Animation([_DRAWN], [40], plays=1 << 16), InvalidArgument, "plays is 65536; allowed"),
        (lambda: clquant.Palette([(1, 2, 3)], codes=7), InvalidArgument, r"codes has shape \(\); allowed"),
        (lambda: panel.fitted(photo(4, 4), 7), InvalidType, "size is 7; allowed"),  # type: ignore[arg-type]
        (lambda: panel.fitted(photo(4, 4), (7, 0)), InvalidArgument, r"size\[1\] is 0; allowed"),
        (lambda: quality.ssim(np.zeros((20, 20)), np.ones((20, 20)), peak=1e200), InvalidArgument, "peak is 1e.200"),
        (lambda: clquant.VectorQuantizer(2).fit(np.diag([1e155, -2.0, 3.0])), InvalidArgument,
         "X has numbers as large as 1e.155; allowed: up to "),
        (lambda: _DRAWN.save(_closed(), "PNG"), FileError, "cannot write the picture: I/O operation on closed file"),
        (lambda: clquant.KMeansPalette(2).fit(photo(4, 4), memory="x"), InvalidArgument, "memory is 'x'; allowed"),
        (lambda: panel.Panel("mine", 3, 1, 1.0, "me"), InvalidArgument, "palette"),  # type: ignore[arg-type]
        (lambda: quality.mse(_MASKED, photo(4, 4)), InvalidArgument, "original has masked values"),
        (lambda: clquant.scalar_codebook(_MASKED, 2), InvalidArgument, "values has masked values"),
        (lambda: clquant.VectorQuantizer(2).fit(_MASKED[0]), InvalidArgument, "X has masked values"),
        (lambda: clquant.VectorQuantizer(2).fit(np.eye(4), None, _MASKED[0, :, 0]), InvalidArgument,
         "sample_weight has masked values"),
        (lambda: quality.mse(_RAGGED, _RAGGED), InvalidArgument, "original"),
        (lambda: quality.mse(np.zeros(3, complex), np.zeros(3)), InvalidType, "original"),
        (lambda: quality.psnr(np.zeros(3), np.ones(3), peak=0), InvalidArgument, "peak"),
        (lambda: quality.ssim(np.zeros((20, 20)), np.ones((20, 20)), peak="9"), InvalidType,  # type: ignore[arg-type]
         "peak"),
        (lambda: quality.visual_error(np.zeros((9, 9)), np.ones((9, 9)), dpi=0), InvalidArgument, "dpi"),
        (lambda: quality.visual_error(np.zeros((9, 9)), np.ones((9, 9)), inches="far"), InvalidType,  # type: ignore[arg-type]
         "inches"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_weight_tables_need_a_whole_start() -> None:
    tables = {"threshold": np.zeros((3, 256), np.int16), "spread": np.zeros((3, 256), np.int16)}
    wrong = clquant.WeightTables(**tables, weights=np.ones((3, 256, 5), np.uint8), start="none")  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match=r"weights\.start"):
        clquant.PinwheelHalftoner(weights=wrong).transform(photo(4, 4))


@pytest.mark.parametrize("path", ["no\0path", "\ud800", pathlib.Path("no\0path")])
def test_paths_that_no_file_can_have(path: Any) -> None:
    for call in (clquant.Palette.read, clquant.Quadtree.load, clquant.VQCodec.load, clquant.clvq_info):
        with pytest.raises(InvalidArgument, match="path is "):
            call(path)
    with pytest.raises(InvalidArgument, match="path is "):
        files.write_bytes(path, b"")


def test_names_that_are_too_long_are_a_file_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match="cannot write"):
        files.write_bytes("x" * 300, b"")
    assert main(["palette", "x" * 300]) == 2
    _DRAWN.save("a.png")
    for output in ("x" * 300, "no\0path", "no\0path/"):
        assert main(["palette", "a.png", "-o", output]) == 2


@pytest.mark.full
def test_a_short_file_is_read_in_little_memory() -> None:
    program = """
import pathlib, resource
from clquant.images import files
used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 27), resource.RLIM_INFINITY))
print(len(files.read_bytes("/dev/null")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "0\n", done.stderr


def test_files_are_read_to_their_limit(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PART", 7)
    (tmp_path / "file").write_bytes(bytes(range(50)))
    assert files.read_bytes(tmp_path / "file", 50) == bytes(range(50))
    with pytest.raises(FileError, match="longer than 49 bytes"):
        files.read_bytes(tmp_path / "file", 49)


def test_a_pil_image_whose_file_ends_too_soon() -> None:
    whole = io.BytesIO()
    PIL.Image.fromarray(photo(40, 40)).save(whole, "PNG")
    with pytest.raises(FileError, match="image: cannot read the PIL image"):
        images.read(PIL.Image.open(io.BytesIO(whole.getvalue()[:900])))


@pytest.mark.parametrize(("mode", "transparency"), [("RGBA", 300), ("P", "none"), ("RGB", b"x")])
def test_pil_images_with_a_transparency_that_their_mode_has_not(mode: str, transparency: object) -> None:
    drawn = PIL.Image.new(mode, (4, 3))
    drawn.info["transparency"] = transparency
    try:
        assert images.read(drawn).shape in ((3, 4, 3), (3, 4, 4))
    except clquant.ClquantError as error:
        assert "image: cannot read the PIL image" in str(error)


def test_a_picture_that_does_not_fit_the_memory() -> None:
    huge = np.broadcast_to(np.uint8(1), (1 << 30, 1 << 30))
    with pytest.raises(
        InvalidArgument, match=r"image is array of shape \(1073741824, 1073741824\), dtype uint8, which"
    ):
        images.read(huge)


@pytest.mark.parametrize("others", [1, 5])
def test_fixed_colors_and_the_transparent_entry_may_take_every_place(others: int) -> None:
    picture = np.zeros((4, 4, 4), np.uint8)
    picture[1:, :, 3] = 255
    picture[1:, :, 0] = np.arange(12).reshape(3, 4) % others
    fitted = clquant.KMeansPalette(2, fixed_colors=[(1, 2, 3)]).fit(picture)
    assert fitted.palette_.colors.tolist() == [[0, 0, 0, 0], [1, 2, 3, 255]]
    difference = picture[1:, :, :3].astype(int) - (1, 2, 3)
    assert fitted.inertia_ == (difference**2).sum()


@pytest.mark.full
def test_arrays_on_the_device_where_the_host_needs_them() -> None:
    picture, other = photo(24, 40), photo(24, 40)[:, ::-1].copy()
    session = runtime.open_session()

    def there(values: Any) -> runtime.Array:
        made = session.new_array(values.shape, values.dtype)
        made.set(values)
        return made

    for measure in (quality.mse, quality.psnr, quality.ssim, quality.visual_error):
        assert measure(there(picture), there(other)) == measure(there(picture), other) == measure(picture, other)
    colors = np.array([[0, 0, 0], [9, 90, 200]])
    assert clquant.Palette(there(colors)) == clquant.Palette(colors)
    start = clquant.KMeansPalette(2, init=there(colors), max_iter=1).fit(picture).palette_
    assert start == clquant.KMeansPalette(2, init=colors, max_iter=1).fit(picture).palette_
    weights = np.arange(60.0).reshape(6, 10)
    weighted = clquant.VQCodec(2).fit(picture, [there(weights)]).codebook_
    assert np.array_equal(weighted, clquant.VQCodec(2).fit(picture, [weights]).codebook_)


def test_weights_of_a_picture_on_no_queue() -> None:
    picture = runtime.open_session().new_array((4, 5, 3), np.uint8)
    picture.set(np.full((4, 5, 3), 7, np.uint8))
    detached = picture.with_queue(None)
    engine = clquant.NeuQuantCL(4)
    with pytest.raises(InvalidArgument, match="a device array has no queue"):
        engine.fit(detached, np.ones((4, 5)))
    assert engine.set_params(queue=picture.queue).fit(detached, np.ones((4, 5))).palette_.colors.tolist() == [[7, 7, 7]]


@pytest.mark.full
def test_iterators_of_pictures(tmp_path: pathlib.Path) -> None:
    pictures = [photo(9, 14), photo(9, 14)[:, ::-1].copy()]
    for number, picture in enumerate(pictures):
        PIL.Image.fromarray(picture).save(tmp_path / f"{number}.png")
    learner = clquant.KMeansPalette(4)
    expected = learner.fit(pictures).palette_
    assert learner.fit(tmp_path.glob("*.png")).palette_ == expected
    assert learner.fit_many(iter(pictures)) == learner.fit_many(pictures)
    few = learner.fit_quality((picture for picture in pictures), target_psnr=5).palette_
    assert few == learner.fit_quality(pictures, target_psnr=5).palette_
    assert clquant.NeuQuantCL(4).fit(iter(pictures)).palette_ == clquant.NeuQuantCL(4).fit(pictures).palette_
    codec = clquant.VQCodec(4).fit(iter(pictures))
    assert np.array_equal(codec.codebook_, clquant.VQCodec(4).fit(pictures).codebook_)


@pytest.mark.parametrize("kind", ["GIF", "PNG", "TIFF"])
def test_iterators_of_an_animated_file(kind: str, tmp_path: pathlib.Path) -> None:
    """Pillow's gives the same image every time, at another frame."""
    colors = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    frames = [PIL.Image.new("RGB", (4, 3), color) for color in colors]
    frames[0].save(tmp_path / "a", kind, save_all=True, append_images=frames[1:])
    learner = clquant.KMeansPalette(4)
    with PIL.Image.open(tmp_path / "a") as image:

        def each() -> Iterator[PIL.Image.Image]:
            return PIL.ImageSequence.Iterator(image)

        for shared in (True, False):
            drawn = animation.quantize_frames(learner, each(), shared=shared)
            assert [tuple(frame.to_array()[0, 0]) for frame in drawn] == colors
        assert set(learner.fit(each()).palette_) == set(colors)
        assert [list(palette) for palette in learner.fit_many(each())] == [[color] for color in colors]
        assert set(clquant.NeuQuantCL(4).fit(each()).palette_) == set(colors)
        assert clquant.NeuQuantCL(4).fit_many(each()) == clquant.NeuQuantCL(4).fit_many(frames)
        codec = clquant.VQCodec(4).fit(each())
        assert np.array_equal(codec.codebook_, clquant.VQCodec(4).fit(frames).codebook_)


def test_iterators_keep_what_a_file_calls_transparent(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "gray.png"
    PIL.Image.fromarray(np.array([[5, 6], [7, 5]], np.uint8)).save(path, transparency=5)
    learner = clquant.KMeansPalette(4).fit(path)
    expected = learner.transform(path)
    assert expected[..., 3].tolist() == [[0, 255], [255, 0]]
    with PIL.Image.open(path) as image:
        assert learner.fit(iter([image])).palette_.transparent_index is not None
        assert np.array_equal(next(learner.stream(iter([image]), "transform")), expected)


def test_frames_of_every_sequence() -> None:
    tree = clquant.QuadtreeBuilder().build(photo(9, 14))
    frames = animation.quantize_frames(clquant.KMeansPalette(8), tree.frames())
    assert len(frames) == tree.depth + 1
    assert animation.gif_bytes(iter(frames)) == animation.gif_bytes(frames)


def test_fit_transform_is_fit_and_transform() -> None:
    learner = clquant.KMeansPalette(4)
    shown = learner.fit_transform(photo(9, 14))
    assert np.array_equal(shown, learner.fit(photo(9, 14)).transform(photo(9, 14)))


def test_queues_by_name() -> None:
    number = runtime.list_devices().index(runtime.default_device())
    assert runtime.default_queue(str(number)) == runtime.default_queue()


def test_pictures_without_pixels_are_named_in_measures() -> None:
    empty = PIL.Image.new("P", (0, 9))
    with pytest.raises(InvalidArgument, match="result has the size"):
        quality.mse(photo(9, 14), empty)


def test_a_truncated_picture_of_pillows_is_a_file_error_in_every_verb() -> None:
    stream = io.BytesIO()
    PIL.Image.fromarray(photo(40, 40)).save(stream, "JPEG")
    learned = clquant.KMeansPalette(4).fit(photo(9, 14))
    for verb in (learned.predict, learned.transform, learned.quantize, learned.fit):
        with (
            PIL.Image.open(io.BytesIO(stream.getvalue()[:800])) as picture,
            pytest.raises(FileError, match="truncated"),
        ):
            verb(picture)


def test_arrays_where_one_value_is_wanted() -> None:
    picture = clquant.quantize(photo(9, 14), 4)
    with pytest.raises(InvalidArgument, match="order is array of shape"):
        picture.sorted(np.zeros((2, 3)))  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="delay_ms is array of shape"):
        animation.gif_bytes([picture], delay_ms=np.array(2.5))  # type: ignore[arg-type]


def test_arguments_of_sinks_tiles_and_panels_are_checked(tmp_path: pathlib.Path) -> None:
    fitted = clquant.KMeansPalette(2).fit(photo(4, 4))
    (tmp_path / "0" / "0").mkdir(parents=True)
    PIL.Image.fromarray(photo(4, 4)).save(tmp_path / "0" / "0" / "0.png")
    many = np.zeros((2, 3), np.uint8)
    without_queue = runtime.open_session().new_array((2, 3), np.uint8).with_queue(None)
    for call, name in (
        (lambda: fitted.transform(photo(4, 4), out=tmp_path / "a.zarr", resume=many), "resume"),
        (lambda: fitted.transform("\ud800", out=tmp_path / "a.tif"), "image"),
        (lambda: clquant.tiles.quantize(tmp_path, many), "out"),
        (lambda: clquant.tiles.quantize(tmp_path, tmp_path / "b", keep_empty=many), "keep_empty"),
        (lambda: clquant.tiles.histogram(tmp_path, tms=many), "tms"),
        (lambda: panel.pack_planes(many, black=many), "black"),
        (lambda: panel.pack_planes(many, color=-1), "color"),
        (lambda: next(iter(panel.PANELS.values())).prepare(without_queue), "a device array has no queue;"),
    ):
        with pytest.raises(runtime.ClquantError, match=f"^{name} "):
            call()
    for memory in (10**30, "9" * 400 + " GB"):
        assert clquant.tiles.histogram(tmp_path, memory=memory).total == 16


def test_a_color_format_of_a_picture_without_a_visible_pixel() -> None:
    learned = clquant.KMeansPalette(4, color_format="rgb565").fit(np.zeros((2, 3, 4), np.uint8))
    assert learned.palette_.colors.tolist() == [[0, 0, 0, 0]]
    assert learned.inertia_ == 0


CUBE = np.zeros((2, 2, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clquant.VectorQuantizer(2, init=CUBE).fit(np.eye(4)), "init is array of shape"),
        (lambda: clquant.VectorQuantizer(2, init=np.full((2, 4), np.nan)).fit(np.eye(4)), "init is array of shape"),
        (lambda: clquant.quantize(photo(8, 8), 2, dither=clquant.OrderedDither(size=3)), "size is 3"),
        (lambda: clquant.scalar_codebook([1.0, 2.0], 2, axis=CUBE), "axis is array"),
        (lambda: clquant.animate([photo(8, 8)], 2, palettes=CUBE), "palettes is array"),
        (lambda: clquant.PinwheelHalftoner(8, color_space="lab").transform(photo(8, 8)), "color_space is 'lab'"),
        (lambda: clquant.PinwheelHalftoner(8).transform(photo(8, 8), dpi=-1), "dpi is -1"),
        (lambda: clquant.PinwheelHalftoner(8).transform(photo(8, 8), resume=CUBE), "resume is array"),
        (lambda: clquant.VQCodec(2).fit(photo(8, 8)).encode(photo(8, 8), resume={}), "resume is {}"),
        (lambda: clquant.TilePalettes(2, 4).fit(photo(8, 8)).predict(photo(8, 8), CUBE), "dither is array"),
        (lambda: clquant.TilePalettes(2, 4).fit(photo(8, 8)).tile_numbers([1]), r"picture is \[1\]"),
    ],
)
def test_what_a_call_would_not_use_is_checked_too(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(clquant.ClquantError, match=message + ".*allowed"):
        call()
