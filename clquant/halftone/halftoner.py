"""PinwheelHalftoner: block-interlaced pinwheel error diffusion."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import flow, images, params, runtime
from clquant.color import spaces
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette, as_palette
from clquant.estimator import Estimator
from clquant.executors import is_remote
from clquant.flow.file_sinks import About, digest_of
from clquant.halftone.pinwheel.levels import LevelHalftone
from clquant.halftone.pinwheel.packing import Packed
from clquant.halftone.pinwheel.palette import PaletteHalftone, VectorSettings
from clquant.halftone.pinwheel.paths import SCANS
from clquant.halftone.pinwheel.plan import Settings
from clquant.halftone.pinwheel.tones import make_tones
from clquant.halftone.refine import MOST_LEVELS, MOST_PASSES, Refined, Refinement, refined_entries, refinement_kernel
from clquant.halftone.tables import UNITS, WeightTables
from clquant.images import HostImage, ImageLike, Picture

WEIGHTS = ("tone-dependent", "constant")
OUTPUTS = ("values", "levels", "bits")
LARGEST_LIMIT = 511.0
PALETTE_LIMIT = 180.0


class PinwheelHalftoner(Estimator):
    """Halftones by error diffusion in two parallel passes over a checkerboard of blocks.

    Blocks of one colour scan from their centre to their rim and pass errors on into the others, which then scan from
    rim to centre. The result depends on picture and parameters only, not on device or scheduling.

    Parameters
    ----------
    block_size : int
        N, 2 to 64. Larger blocks look better; smaller ones offer more parallelism.
    scan : str
        "spiral" or "serpentine".
    weights : str or WeightTables
        "tone-dependent": the shipped trained thresholds and weights; "constant": Floyd and Steinberg's weights and a
        fixed threshold; or tables of your own.
    noise : float
        0 to 1: moves each pixel's threshold up or down, by a random bit, by this much of half the distance between
        two output levels.
    levels : int
        Output levels of each channel, 2 to 256: round(255 j / (levels - 1)).
    linear : bool
        Diffuse errors in linear light instead of encoded values, so that mean light is kept. Decisions are made in half
        gray levels, which in the darks of linear light are coarser than the output levels from about 64 `levels` up:
        dark tones are noisy then.
    palette : Palette or array_like, optional
        Halftone to these colours instead of to levels: errors are vectors, a pixel takes the entry nearest to its
        colour plus twice the error that reached it, weights are constant; `weights`, `noise` and `levels` must then be
        left as they are.
    color_space : str
        "srgb", "linear" or "oklab": where colours are compared with a palette's.
    error_limit : float, optional
        Errors are clamped to this many gray levels either way, 1 to 511; default 511, and 180 with a palette. (A
        table that could overflow 16 bits lowers the limit further.)
    queue : pyopencl.CommandQueue, optional
        Default: the queue of a device input, else the best device found.
    random_state : int
        Seed of the start errors and the noise, 0 to 2^64 - 1.

    Notes
    -----
    Zhang, Recker, Ulichney, Beretta, Tastl, Lin, Owens, "A Parallel Error Diffusion Implementation on a GPU"; the
    algorithm is Li and Allebach's. Errors are integers of 1/16 gray. A share is floor(error * weight / 16); the rest,
    and shares for receivers outside the picture, go to the next pixel of the scan. What the last pixel of an inward
    block cannot pass on is dropped: at most half a white pixel in two blocks, of either sign.
    """

    stateless = True

    def __init__(
        self,
        block_size: int = 32,
        *,
        scan: str = "spiral",
        weights: str | WeightTables = "tone-dependent",
        noise: float = 0.0,
        levels: int = 2,
        linear: bool = False,
        palette: Palette | npt.ArrayLike | None = None,
        color_space: str = "srgb",
        error_limit: float | None = None,
        queue: runtime.CommandQueue | None = None,
        random_state: int = 0,
    ) -> None:
        self.block_size = block_size
        self.scan = scan
        self.weights = weights
        self.noise = noise
        self.levels = levels
        self.linear = linear
        self.palette = palette
        self.color_space = color_space
        self.error_limit = error_limit
        self.queue = queue
        self.random_state = random_state

    def _settings(self) -> Settings:
        block_size = params.integer("block_size", self.block_size, 2, 64)
        scan = params.choice("scan", self.scan, SCANS)
        if isinstance(self.weights, WeightTables):
            self.weights.checked()
        elif not isinstance(self.weights, str) or self.weights not in WEIGHTS:
            raise runtime.InvalidArgument(
                f"weights is {params.shown(self.weights)}; allowed: 'tone-dependent', 'constant' or WeightTables"
            )
        return Settings(
            block_size=block_size,
            scan=scan,
            levels=params.integer("levels", self.levels, 2, 256),
            linear=params.boolean("linear", self.linear),
            noise=params.real("noise", self.noise, 0.0, 1.0),
            weights=self.weights,
            seed=params.seed(self.random_state),
            error_limit=self._error_units(LARGEST_LIMIT),
        )

    def _error_units(self, default: float) -> int:
        limit = default if self.error_limit is None else self.error_limit
        return int(UNITS * params.real("error_limit", limit, 1.0, LARGEST_LIMIT))

    def _vector_settings(self) -> VectorSettings:
        settings = self._settings()
        for name, default in (("weights", WEIGHTS[0]), ("noise", 0.0), ("levels", 2)):
            if getattr(self, name) != default:
                raise runtime.InvalidArgument(
                    f"{name} is {params.shown(getattr(self, name))} with a palette; allowed: {default!r}"
                )
        return VectorSettings(
            block_size=settings.block_size,
            scan=settings.scan,
            linear=settings.linear,
            color_space=self.color_space,
            error_limit=self._error_units(PALETTE_LIMIT),
            seed=settings.seed,
        )

    def fit(self, images: Any = None, y: Any = None) -> PinwheelHalftoner:  # noqa: ARG002
        """Learns nothing: for scikit-learn's pipelines, which call it on every step.

        Parameters
        ----------
        images, y
            Ignored.

        Returns
        -------
        PinwheelHalftoner
            The engine itself.
        """
        return self

    @overload
    def transform(
        self,
        image: runtime.Array,
        *,
        output: str = ...,
        refine: int = ...,
        dpi: float = ...,
        inches: float = ...,
        progress: runtime.ProgressCallback | None = ...,
    ) -> runtime.Array: ...
    @overload
    def transform(
        self,
        image: HostImage,
        *,
        output: str = ...,
        refine: int = ...,
        dpi: float = ...,
        inches: float = ...,
        progress: runtime.ProgressCallback | None = ...,
        out: Any = ...,
        memory: Any = ...,
        resume: bool = ...,
    ) -> npt.NDArray[Any]: ...
    def transform(
        self,
        image: ImageLike,
        *,
        output: str = "values",
        refine: int = 0,
        dpi: float = 300.0,
        inches: float = 9.5,
        progress: runtime.ProgressCallback | None = None,
        out: Any = None,
        memory: Any = None,
        resume: bool = False,
    ) -> npt.NDArray[np.uint8] | runtime.Array:
        """Halftone a picture: each of gray, or red, green and blue by itself, alpha unchanged; or to the palette.

        So a gray picture that is held as RGB or RGBA (mode LA is read as RGBA) gets coloured noise: give it as gray,
        ``image.convert("L")`` of PIL, or give a palette of grays.

        Parameters
        ----------
        image : path, PIL image, ndarray or device array
            uint8 (H, W), (H, W, 3) or (H, W, 4), at most 2^30 pixels per side; see `clquant.images`. A Dask array gives
            a lazy one. uint16 values are halftoned by their 16 bits, but with a palette or `refine` by round(v / 257).
        output : str
            "values": output levels as 0..255; "levels": their numbers 0..levels - 1; "bits": of a gray picture at
            two levels, eight pixels per byte, the leftmost in the highest bit, rows padded with 0. With a palette the
            result is indices, whatever is asked of these.
        refine : int
            0 to 16 passes of direct binary search over the halftone, of at most 16 levels: pixels change levels, or
            places with a neighbour, where that lowers the visible error; with a palette they change entries (see
            `clquant.SearchDither`). Three are nearly as good as more.
        dpi, inches : float
            For `refine`: pixels per inch, and the distance from which they are seen, as `clquant.quality.visual_error`
            takes them.
        progress : callable, optional
            Called with (rows done, rows), or with `refine` (passes done, passes); returning False stops the job.
        out : object or path-like, optional
            With ``shape`` and ``__setitem__`` (NumPy, zarr, h5py), or the path of a ``.zarr`` or a ``.tif`` in tiles:
            gets the result; not for "bits" or device arrays.
        memory : int or str, optional
            Host memory that a lazy image (see `clquant.images.storage`) may take, such as ``"1 GiB"``; default 512 MiB.
        resume : bool
            With a ``.zarr`` path as `out`: keep what a job that is stopped has done, and go on with what an earlier one
            of the same image and parameters has kept.

        Returns
        -------
        uint8 ndarray, or device array for a device array
            Of the image's shape; (H, ceil(W / 8)) for "bits"; (H, W) with a palette (uint16 over 256 colours). Pixels
            of alpha 0 have the palette's first entry of alpha 0.

        Raises
        ------
        InvalidArgument, InvalidType
            If a parameter or the image is not allowed, or the image has pixels of alpha 0 and the palette no entry
            of alpha 0.
        FileError
            If a file cannot be read.
        StoppedError
            If `progress` returned False.
        """
        kind = params.choice("output", output, OUTPUTS)
        passes = params.integer("refine", refine, 0, MOST_PASSES)
        given: dict[str, Any] = {"queue": self.queue, "progress": progress}
        params.choice("color_space", self.color_space, spaces.NAMES)
        refinement_kernel(dpi, inches)
        if passes and (out is not None or flow.is_stored(image)):
            raise runtime.InvalidArgument("refine is given with out or an image in a store; allowed: one in memory")
        if kind == "bits" and self.palette is None:
            if out is not None:
                raise runtime.InvalidArgument("out is given for output='bits'; allowed: 'values' and 'levels'")
            source = self._of_bits(image, memory, 8 if passes else 16)
            levels = self.transform(source, output="levels", refine=passes, dpi=dpi, inches=inches, progress=progress)
            if isinstance(levels, np.ndarray):
                return np.packbits(levels, axis=1)
            return flow.run(Packed(), levels, queue=self.queue)  # type: ignore[no-any-return]
        if passes:
            return self._refined(image, kind, passes, (dpi, inches), **given)
        entries = None if self.palette is None else as_palette(self.palette).colors
        digest = digest_of({**self.get_params(), "queue": None}) if resume is True else ""
        settings = {"output": kind, "parameters": digest}
        about = About(entries, image, resume, settings)
        return flow.run(self._job(kind), image, **given, out=out, about=about, memory=memory)  # type: ignore[no-any-return]

    def _job(self, kind: str = "values", max_bits: int = 16) -> LevelHalftone | PaletteHalftone:
        """The scan that makes `kind`; values, level numbers or indices."""
        if self.palette is not None:
            return PaletteHalftone(as_palette(self.palette), self._vector_settings())
        return LevelHalftone(self._settings(), self._shown(kind).tobytes(), max_bits)

    def _shown(self, kind: str) -> npt.NDArray[np.uint8]:
        """Return the byte that is written for each level."""
        settings = self._settings()
        values = make_tones(settings.levels, settings.linear).output
        return values if kind == "values" else np.arange(settings.levels, dtype=np.uint8)

    def _of_bits(self, image: ImageLike, memory: Any, max_bits: int) -> Any:
        """A picture that is read, or a Dask array, of which bits can be made."""
        source = image if is_remote(image) else flow.open_picture(image, memory=memory, max_bits=max_bits)
        channels = source.channels if isinstance(source, Picture) else (*source.shape, 1)[2]
        if channels != 1 or self.levels != 2:
            raise runtime.InvalidArgument(
                f"output is 'bits' for {channels} channels at {self.levels} levels; allowed: gray pictures at 2 levels"
            )
        return source

    def _refined(
        self,
        image: ImageLike,
        kind: str,
        passes: int,
        eye: tuple[float, float],
        queue: runtime.CommandQueue | None,
        progress: runtime.ProgressCallback | None,
    ) -> npt.NDArray[np.uint8] | runtime.Array:
        """The halftone after some passes of direct binary search."""
        report, start = runtime.Progress(params.callback("progress", progress)), self._job("levels", max_bits=8)
        picture = images.read(image)
        if self.palette is None and self.levels > MOST_LEVELS:
            raise runtime.InvalidArgument(
                f"refine is {passes} at {self.levels} levels; allowed: at {MOST_LEVELS} levels at most"
            )
        session = runtime.open_session(queue, images.device_arrays([picture]))
        begun = flow.in_bands(session, picture, start, runtime.Progress(None))
        if isinstance(start, PaletteHalftone):
            space = "linear" if start.settings.linear else start.settings.color_space
            job = refined_entries(start.palette, space, begun, passes, eye)
            return flow.in_bands(session, picture, job, report)  # type: ignore[no-any-return]
        linear, tones = start.settings.linear, self._shown("values")
        how = Refinement(passes, refinement_kernel(*eye), linear, tones, self._shown(kind))
        return flow.in_bands(session, picture, Refined(images.read(begun, takes_rows=True), how), report)  # type: ignore[no-any-return]

    def quantize(
        self,
        image: ImageLike,
        *,
        refine: int = 0,
        dpi: float = 300.0,
        inches: float = 9.5,
        progress: runtime.ProgressCallback | None = None,
    ) -> IndexedImage:
        """The halftone to the palette, as indices and palette.

        Parameters
        ----------
        image, refine, dpi, inches, progress
            As `transform` takes them.

        Returns
        -------
        IndexedImage
            Its indices are on the device for a device array.

        Raises
        ------
        InvalidArgument
            If there is no palette; else as `transform`.
        """
        if self.palette is None:
            raise runtime.InvalidArgument("palette is None; quantize needs a palette")
        found: Any = self.transform(image, refine=refine, dpi=dpi, inches=inches, progress=progress)
        return IndexedImage.of_own(flow.fetch(found, progress), as_palette(self.palette))

    def to_pil(
        self,
        image: ImageLike,
        *,
        refine: int = 0,
        dpi: float = 300.0,
        inches: float = 9.5,
        progress: runtime.ProgressCallback | None = None,
    ) -> PIL.Image.Image:
        """The halftone as a PIL image: "1" for gray at two levels, else "L", "RGB" or "RGBA"; with a palette "P".

        Parameters
        ----------
        image, refine, dpi, inches, progress
            As `transform` takes them.

        Returns
        -------
        PIL.Image.Image

        Raises
        ------
        As `transform`.
        """
        if self.palette is not None:
            made = self.quantize(image, refine=refine, dpi=dpi, inches=inches, progress=progress)
            return made.to_pil()
        result: Any = self.transform(image, refine=refine, dpi=dpi, inches=inches, progress=progress)
        values = result.get() if isinstance(result, runtime.Array) else flow.fetch(result, progress)
        pixels = values[:, :, 0] if values.ndim == 3 and values.shape[2] == 1 else values
        picture = PIL.Image.fromarray(pixels)
        two_gray = picture.mode == "L" and self.levels == 2
        return picture.convert("1", dither=PIL.Image.Dither.NONE) if two_gray else picture
