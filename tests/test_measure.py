"""The benchmark tools: clocks, device rates, figures of quality, tables."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import PIL.Image
import pytest

from benchmarks import harness, measure
from clquant import quality, runtime
from clquant.cli.table import Table


def test_time_call_calls_as_often_as_it_says() -> None:
    calls: list[int] = []
    timing = measure.time_call(lambda: calls.append(1), repeat=4, warmup=2)
    assert (len(calls), timing.repeats) == (6, 4)
    assert 0 <= timing.best_ms <= timing.median_ms <= timing.worst_ms


def test_time_call_keeps_its_budget_but_times_once() -> None:
    calls: list[int] = []
    assert measure.time_call(lambda: calls.append(1), repeat=9, warmup=9, budget_s=0.0).repeats == 1
    assert len(calls) == 2


@pytest.mark.full
def test_device_rates_are_measured_and_checked() -> None:
    devices = [d for d in runtime.list_devices() if "oclgrind" not in d.platform.name.lower()]
    rates = measure.device_rates(runtime.default_queue(devices[0]), megabytes=4)
    figures = {k: v for k, v in dataclasses.asdict(rates).items() if k != "device"}
    assert all(math.isfinite(v) and v > 0 for v in figures.values())


def test_kernel_ms_needs_a_profiling_queue() -> None:
    def launch(queue: runtime.CommandQueue) -> None:
        session = runtime.open_session(queue)
        kernel = session.program(measure.rates.FILE, FLOATN="float2", UINTN="uint2").kernel("measure_launch")
        with session.scope() as scope:
            session.launch(kernel, 1, 1, scope.zeros(4))
            session.finish()

    assert measure.kernel_ms(lambda: launch(runtime.profiling_queue())) > 0
    with pytest.raises(runtime.DeviceError, match="profiling_queue"):
        measure.kernel_ms(lambda: launch(runtime.default_queue()))


def test_figures_of_equal_pictures() -> None:
    picture = harness.synthetic_photo(32, 48)
    assert quality.mse(picture, picture) == 0
    assert quality.psnr(picture, picture) == math.inf
    assert quality.ssim(picture, picture) == 1.0
    assert quality.visual_error(picture, picture) == 0


def test_figures_of_known_errors() -> None:
    black = np.zeros((16, 16), np.uint8)
    assert quality.mse(black, black + np.uint8(3)) == 9.0
    assert quality.psnr(black, black + np.uint8(255)) == 0.0
    # Means 0 and 255, no variance: SSIM is C1 / (255^2 + C1) with C1 = 2.55^2.
    assert round(quality.ssim(black, black + np.uint8(255)), 9) == round(2.55**2 / (255**2 + 2.55**2), 9)
    assert round(quality.visual_error(black, black + np.uint8(2)), 9) == 4.0


@pytest.mark.parametrize("mode", ["1", "P", "L", "RGB"])
def test_pil_pictures_count_as_what_they_show(mode: str) -> None:
    picture = PIL.Image.fromarray(harness.synthetic_photo(32, 48)).convert(mode)
    shown = np.asarray(picture.convert({"1": "L", "P": "RGB"}.get(mode, mode)))
    assert quality.mse(shown, picture) == 0
    assert quality.visual_error(picture, 255 - shown) == quality.visual_error(shown, 255 - shown)


def test_figures_refuse_what_cannot_be_compared() -> None:
    with pytest.raises(runtime.InvalidArgument, match="one shape"):
        quality.mse(np.zeros((2, 2)), np.zeros((2, 3)))
    with pytest.raises(runtime.InvalidArgument, match="non-empty"):
        quality.psnr(np.zeros((0, 2)), np.zeros((0, 2)))
    with pytest.raises(runtime.InvalidArgument, match="11 x 11"):
        quality.ssim(np.zeros((10, 40)), np.zeros((10, 40)))


def test_a_table_prints_markdown_and_keeps_all_digits() -> None:
    table = Table("Times", {"name": "method", "ms": "end to end, ms"}, note="on one core")
    table.add(name="ours", ms=1.23456)
    table.add(name="peer")
    table.add(name="equal", ms=math.inf)
    assert table.text().splitlines() == [
        "Times",
        "",
        "| method | end to end, ms |",
        "|--------|---------------:|",
        "| ours   |          1.235 |",
        "| peer   |                |",
        "| equal  |            inf |",
        "",
        "on one core",
    ]
    assert [row.get("ms") for row in table.as_dict()["rows"]] == [1.23456, None, "inf"]
    with pytest.raises(KeyError, match="colour"):
        table.add(colour="red")


def test_pictures_are_cut_and_repeated_to_size() -> None:
    picture = harness.synthetic_photo(20, 30)
    assert harness.to_size(picture, 50, 95).shape == (50, 95, 3)
    np.testing.assert_array_equal(harness.to_size(picture, 50, 95)[:20, :30], picture)
    assert harness.to_size(picture, 7, 9).shape == (7, 9, 3)
    assert {icon.shape for icon in harness.batch_of(picture, 5, 8)} == {(8, 8, 3)}
