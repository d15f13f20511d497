"""Every public verb of every engine by every way in: in bands, lazily, streamed, stopped and resumed, all equal."""

from __future__ import annotations

import functools
import inspect
import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clquant import runtime

from .every_verb import ENGINES, PICTURE, call_of, comparable, given_to, options_of, same, verbs

VERBS = list(verbs())
STREAMED = [(e, v) for e, v in VERBS if hasattr(ENGINES[e](), "stream") and v != "compress_to"]
# Verbs that fit pixels and colours together, or search in planes, for which 300 kB are too few.
WHOLE = {
    *(f"SpatialPalette.{v}" for e, v in VERBS if e == "SpatialPalette" and v != "score"),
    *(f"TilePalettes.{verb}" for verb in ("fit", "fit_predict", "fit_transform")),
}
# Index tables may be of any shape, and a halftoner's `fit` looks at nothing.
TAKE_ROWS = {"VQCodec.decode", "PinwheelHalftoner.fit"}


def takes(engine: str, verb: str, name: str) -> bool:
    return name in inspect.signature(getattr(ENGINES[engine](), verb)).parameters


@functools.cache
def expected(engine: str, verb: str) -> Any:
    """What the plain call gives."""
    return comparable(call_of(engine, verb)(given_to(engine, verb)))


def stored(folder: pathlib.Path, engine: str, verb: str) -> npt.NDArray[np.uint8]:
    """What a verb takes in a file that is mapped to memory."""
    np.save(folder / "given.npy", given_to(engine, verb))
    return np.load(folder / "given.npy", mmap_mode="r")


def test_every_engine_is_here() -> None:
    assert {engine for engine, _ in VERBS} == set(ENGINES)


@pytest.mark.parametrize(("engine", "verb"), [(e, v) for e, v in VERBS if f"{e}.{v}" not in TAKE_ROWS])
@pytest.mark.parametrize("spread", [False, True])
def test_rows_of_vectors_are_refused(engine: str, verb: str, spread: bool) -> None:
    rows: Any = np.zeros((512, 3), np.uint8)
    rows = pytest.importorskip("dask.array").from_array(rows, chunks=(100, 3)) if spread else rows
    with pytest.raises(runtime.ClquantError, match=r"VectorQuantizer|(has|is) a Dask array,"):
        call_of(engine, verb)(rows)


@pytest.mark.parametrize(("engine", "verb"), VERBS)
def test_lazily_in_small_parts_with_progress(
    engine: str, verb: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "lazy.memory=24576")
    told: list[tuple[int, int]] = []
    given = {"progress": lambda *step: told.append(step)} if takes(engine, verb, "progress") else {}
    assert same(comparable(call_of(engine, verb)(stored(tmp_path, engine, verb), **given)), expected(engine, verb))
    assert bool(told) == bool(given)
    assert all(done <= total for done, total in told)


@pytest.mark.parametrize(("engine", "verb"), VERBS)
def test_on_several_queues(engine: str, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLQUANT_LIMITS", "shared_pixels=500,shared_work=1")
    queue = runtime.default_queue()
    queues = [queue, runtime.sibling_queue(queue)]
    assert same(comparable(call_of(engine, verb, queues)(given_to(engine, verb))), expected(engine, verb))


@pytest.mark.full
@pytest.mark.parametrize(("engine", "verb"), [(e, v) for e, v in VERBS if takes(e, v, "progress")])
def test_progress_stops(engine: str, verb: str) -> None:
    call = call_of(engine, verb)
    with pytest.raises(runtime.StoppedError):
        call(given_to(engine, verb), progress=lambda *_: False)


@pytest.mark.full
@pytest.mark.parametrize(("engine", "verb"), VERBS)
def test_in_bands(engine: str, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = given_to(engine, verb)  # several times, as more than the largest table of a fit
    call, large = call_of(engine, verb), np.tile(given, (4, 7, 1)[: given.ndim])
    whole = comparable(call(large))
    monkeypatch.setenv("CLQUANT_LIMITS", "max_alloc=300000")
    if f"{engine}.{verb}" in WHOLE:
        with pytest.raises(runtime.DeviceMemoryError):
            call(large)
    else:
        assert same(comparable(call(large)), whole)


@pytest.mark.full
@pytest.mark.parametrize(("engine", "verb"), VERBS)
def test_from_zarr(engine: str, verb: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")  # needs Python 3.11
    given = given_to(engine, verb)
    zarr.create_array(tmp_path / "a.zarr", data=given, chunks=(20, 17, 3)[: given.ndim])
    monkeypatch.setenv("CLQUANT_LIMITS", "lazy.memory=24576")
    assert same(comparable(call_of(engine, verb)(tmp_path / "a.zarr")), expected(engine, verb))


@pytest.mark.full
@pytest.mark.parametrize(("engine", "verb"), STREAMED)
def test_streamed(engine: str, verb: str) -> None:
    own = ENGINES[engine]()
    if hasattr(own, "fit") and not verb.startswith("fit"):
        own.fit(PICTURE)
    given = [PICTURE] if verb == "fit_many" else given_to(engine, verb)
    found = [comparable(made) for made in own.stream([given, given], verb, **options_of(engine, verb))]
    assert same(found, [expected(engine, verb)] * 2)


@pytest.mark.full
@pytest.mark.parametrize(("engine", "verb"), [(e, v) for e, v in VERBS if takes(e, v, "resume")])
def test_a_file_of_results_is_gone_on_with(
    engine: str, verb: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")  # needs Python 3.11
    from clquant.flow import zarr_sink

    monkeypatch.setenv("CLQUANT_LIMITS", "lazy.memory=24576")
    monkeypatch.setattr(zarr_sink, "CHUNK", 8)
    monkeypatch.setattr(zarr_sink.ZarrSink, "block_rows", 8)
    call, given, out = call_of(engine, verb), stored(tmp_path, engine, verb), tmp_path / "out.zarr"
    with pytest.raises(runtime.StoppedError):
        call(given, out=out, resume=True, progress=lambda done, total: 2 * done < total)
    assert not out.exists()
    call(given, out=out, resume=True)
    assert same(zarr.open(out, mode="r")[:], expected(engine, verb))
