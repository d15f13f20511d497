"""The files that `save_gif` writes, frame by frame, as a decoder to the specification and Pillow show them."""

from __future__ import annotations

import io

import numpy as np
import PIL.Image
import pytest

from clquant import IndexedImage, save_gif
from clquant.color.formats.gif import OPAQUE_ALPHA
from clquant.runtime import InvalidArgument
from clquant.video.animation import gif_bytes
from tests.gif_decoder import decoded


def wanted(frame):
    """(H, W, 4): what a viewer has to show of a frame; holes are 0."""
    rgba = frame.palette.rgba()[frame.host_indices()]
    hole = rgba[..., 3] < OPAQUE_ALPHA
    rgba[..., 3] = 255
    rgba[hole] = 0
    return rgba


def by_pillow(data):
    with PIL.Image.open(io.BytesIO(data)) as image:
        for number in range(image.n_frames):
            image.seek(number)
            shown = np.array(image.convert("RGBA"))
            shown[shown[..., 3] == 0] = 0
            yield shown


def check(frames, milliseconds=50, loop=True):
    data = gif_bytes(frames, delay_ms=milliseconds, loop=loop)
    shown, loops = decoded(data)
    assert loops == (0 if loop else None)
    assert [one.milliseconds for one in shown] == [milliseconds] * len(frames)
    for one, other, frame in zip(shown, by_pillow(data), frames, strict=True):
        assert np.array_equal(one.picture, wanted(frame))
        assert np.array_equal(other, wanted(frame))
    return shown


def random_palette(rng, alpha):
    count = int(rng.choice([1, 2, 3, 5, 17, 128, 255, 256]))
    # Few values a channel: holes and opaque entries of the same colour, and colours that come twice.
    colors = rng.integers(0, rng.choice([2, 256]), (count, 4))
    colors[:, 3] = rng.choice([255, 255, 200, 100, 0], count) if alpha else 255
    return colors if alpha or rng.random() < 0.5 else colors[:, :3]


@pytest.mark.parametrize("seed", range(150))
def test_random_frames_come_back(seed):
    rng = np.random.default_rng(seed)
    height, width = rng.integers(1, 14, 2)
    shared, alpha = rng.random(2) < 0.5
    colors = random_palette(rng, alpha)
    frames = []
    for _ in range(rng.integers(1, 6)):
        if not shared:
            colors = random_palette(rng, rng.random() < 0.5)
        indices = rng.integers(0, len(colors), (height, width))
        if frames and rng.random() < 0.7 and len(colors) == len(frames[-1].palette):
            y, x, size = rng.integers(0, height), rng.integers(0, width), rng.integers(0, 4)
            changed = frames[-1].host_indices().copy()
            changed[y : y + size, x : x + size] = indices[y : y + size, x : x + size]
            indices = changed
        frames.append(IndexedImage(indices, colors))
    check(frames, loop=bool(rng.random() < 0.5))


def test_a_frame_without_anything():
    """Pillow finds nothing in it, and then begins a second file within the first."""
    colors = [(0, 0, 0, 0), (255, 200, 0, 255)]
    check([IndexedImage(indices, colors) for indices in ([[1, 0]], [[0, 0]], [[0, 1]])])


def test_own_palettes_and_holes():
    clear_black = [(0, 0, 0, 0), (0, 0, 0, 255)]
    check(
        [IndexedImage([[0, 1]], [(0, 0, 0, 0), (255, 255, 0, 255)]), IndexedImage([[0, 1]], [(255, 0, 255), (0, 0, 0)])]
    )
    check([IndexedImage([[0]], [(50, 0, 0)]), IndexedImage([[0]], [(50, 0, 0, 0)])])
    check([IndexedImage([[0, 0]], [(9, 9, 9)]), IndexedImage([[0, 1]], clear_black)])
    check(
        [IndexedImage([[1, 1]], clear_black), IndexedImage([[0, 1]], clear_black), IndexedImage([[1, 0]], clear_black)]
    )


def test_all_entries_taken():
    full = IndexedImage(np.arange(256).reshape(16, 16), np.arange(768).reshape(256, 3) % 256)
    hole = IndexedImage(np.ones((16, 16), int), [(0, 0, 0), (9, 9, 9)])
    with_hole = IndexedImage(np.eye(16, dtype=int), [(9, 9, 9, 255), (0, 0, 0, 0)])
    with pytest.raises(InvalidArgument, match=r"frames\[0\] has 256 opaque colours and frames\[1\] has holes"):
        gif_bytes([full, with_hole, hole])
    # Pillow shows holes only where the first frame has an entry for them, whichever clears them.
    with pytest.raises(InvalidArgument, match=r"frames\[0\] has 256 opaque colours and frames\[2\] has holes"):
        gif_bytes([full, hole, with_hole])
    with pytest.raises(InvalidArgument, match=r"frames\[1\] has 256 opaque colours and frames\[0\] has holes"):
        gif_bytes([with_hole, full])
    shown, _ = decoded(gif_bytes([with_hole, full, hole], loop=False))
    for one, frame in zip(shown, [with_hole, full, hole], strict=True):
        assert np.array_equal(one.picture, wanted(frame))


def test_a_frame_of_256_colours_is_cleared_in_every_reader(rng):
    """255 of them, or an entry that the cleared rectangle leaves free, are enough for Pillow too."""
    full = IndexedImage(np.arange(256).reshape(16, 16) % 255, rng.integers(0, 256, (256, 3)))
    with_hole = IndexedImage(np.eye(16, dtype=int), [(9, 9, 9, 255), (0, 0, 0, 0)])
    with PIL.Image.open(io.BytesIO(gif_bytes([full, with_hole]))) as film:
        film.seek(1)
        assert np.array_equal(np.asarray(film.convert("RGBA"))[:, :, 3] == 0, np.eye(16, dtype=bool))


def test_no_entry_is_free_for_what_stays(rng):
    """A part that changes has all 256 colours, and around it pixels stay: they are drawn again."""
    palette = np.concatenate([rng.permutation(256)[:, None], rng.integers(0, 256, (256, 2))], axis=1)
    changing = np.arange(256).reshape(16, 16)
    first, second = (np.insert(part, 8, 7, axis=1) for part in (changing, np.roll(changing, 1)))
    check([IndexedImage(first, palette), IndexedImage(second, palette)])


def test_only_what_changes_is_drawn():
    indices = np.zeros((20, 30), int)
    moved = indices.copy()
    moved[4:7, 10:15] = 1
    shown = check([IndexedImage(i, [(1, 2, 3), (4, 5, 6)]) for i in (indices, moved, moved, indices)])
    assert [one.rectangle for one in shown] == [(0, 0, 30, 20), (10, 4, 5, 3), (0, 0, 1, 1), (10, 4, 5, 3)]


def test_what_the_last_frame_leaves():
    """Viewers that do not clear the screen before the next round show the first frame's holes all the same."""
    colors = [(0, 0, 0, 0), (1, 2, 3, 255)]
    frames = [IndexedImage([[0, 1]], colors), IndexedImage([[1, 1]], colors)]
    assert not check(frames)[-1].left[0, 0].any()
    assert check(frames, loop=False)[-1].left.all()


def test_times_are_rounded_half_up_so_that_their_sums_are():
    frames = [IndexedImage([[0, 1]], [(0, 0, 0), (9, 9, 9)])] * 4
    shown, _ = decoded(gif_bytes(frames, delay_ms=[14, 15, 45, 655350]))
    assert [one.milliseconds for one in shown] == [10, 20, 40, 655350]


@pytest.mark.parametrize("delays", [[10, 655350, 40], (20, 20, 20), np.array([70, 10, 30])])
def test_each_frame_stands_for_its_own_time(delays):
    frames = [IndexedImage([[number, 1]], [(0, 0, 0), (9, 9, 9)]) for number in (0, 1, 0)]
    shown, _ = decoded(gif_bytes(frames, delay_ms=delays))
    assert [one.milliseconds for one in shown] == list(delays)


@pytest.mark.parametrize(("count", "delay_ms"), [(200, 4000), (2, 655350)])
def test_equal_frames_stay_as_many(count, delay_ms):
    check([IndexedImage([[0, 1]], [(0, 0, 0), (9, 9, 9)])] * count, delay_ms)


@pytest.mark.parametrize("shape", [(1, 65536), (65536, 1)])
def test_too_large(shape, tmp_path):
    frame = IndexedImage(np.zeros(shape, int), [(0, 0, 0)])
    sides = f"at most 65535 pixels wide and high; this picture is {shape[1]} wide and {shape[0]} high"
    with pytest.raises(InvalidArgument, match=sides):
        save_gif(tmp_path / "a.gif", [frame])
    with pytest.raises(InvalidArgument, match=sides):
        frame.save(tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())
    check([IndexedImage(np.zeros((1, 65535), int), [(0, 0, 0)])])
