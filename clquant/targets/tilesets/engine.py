"""`TilePalettes`: pictures whose tiles have a small palette each, out of a few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clquant import flow, images, params
from clquant.color.indexed import IndexedImage
from clquant.color.palette import Palette, as_palette
from clquant.dithering.registry import for_learned
from clquant.estimator import Estimator
from clquant.images import ImageLike, Picture, buffer_of, device_arrays, materialize, read_many
from clquant.mapping.lookup import applied
from clquant.palette import engine
from clquant.runtime import (
    Array,
    CommandQueue,
    InvalidArgument,
    InvalidType,
    Progress,
    ProgressCallback,
    Session,
    open_session,
)
from clquant.targets.tilesets.fit import TileFit
from clquant.targets.tilesets.packing import OPAQUE_ALPHA, kept_colors
from clquant.targets.tilesets.params import TileParams, checked_dither
from clquant.targets.tilesets.steps import Mapped, TileSteps

Colors = npt.NDArray[np.uint8]


class TilePalettes(Estimator):
    """Palettes for pictures of tiles, as consoles show them: each tile has one of a few palettes of a few colours.

    Tiles and entries are fitted in turns: every tile takes the palette in which it costs least, every entry moves to
    the mean of its pixels. Palettes that are missed little are given up for tiles that cost much. Pictures whose tiles
    fit the palettes as they are keep their colours. All in whole numbers: the same on every device.

    Parameters
    ----------
    n_palettes : int
        1 to 256.
    n_colors : int
        Entries of each palette, 2 to 256, the shared one among them.
    tile_size : int or (int, int)
        Side of a tile, or its rows and columns; at most 256 pixels.
    shared_color : None, bool or colour
        True: all palettes have the same first entry, which is learned; a colour, such as ``"black"`` or
        ``(0, 0, 0)``: this one; one of alpha 0, such as ``"transparent"``: the first entry of each is kept for
        transparent pixels, also if the pictures have none.
    color_space : str
        ``"srgb"``, ``"linear"`` or ``"oklab"``: where distances are taken.
    color_format : str, optional
        As `KMeansPalette` takes it: entries that a display with fewer bits has.
    swap_rounds : int
        0 to 1000: how often to try to give up a palette.
    random_state : int
        Seed, 0 to 2^64 - 1.
    queue : pyopencl.CommandQueue, optional
        Default: the device arrays' own, else the best device.

    Attributes
    ----------
    palettes_ : list of Palette
        `n_palettes` of `n_colors` each. If pixels (of alpha below 128) or `shared_color` are transparent, the first
        entry of each is,
        with the values of `shared_color` if that is given, and opaque pixels do not take it.
    palette_ : Palette
        All of them in turn: entry i of palette p is ``p * n_colors + i``.
    inertia_ : float
        Sum of the squared distances of the pixels that were learned from to their entries, in units of the colour
        space.
    n_iter_ : int
        Steps done; 0 where the colours of tiles fit the palettes as they are.

    Notes
    -----
    Of pictures of more than 2^17 pixels in all, tiles are drawn by position. Tiles at the right and lower edge may be
    cut off. Ties go to the lowest palette and entry. Entries that have no pixels may be equal.

    Examples
    --------
    >>> import numpy as np
    >>> from clquant import TilePalettes
    >>> image = np.zeros((8, 16, 3), dtype=np.uint8)
    >>> image[:, :8, 0] = 200
    >>> image[:, 8:, 1] = 100
    >>> engine = TilePalettes(2, 2, tile_size=8).fit(image)
    >>> engine.tile_numbers(engine.quantize(image)).shape
    (1, 2)
    """

    def __init__(
        self,
        n_palettes: int = 8,
        n_colors: int = 16,
        *,
        tile_size: Any = 8,
        shared_color: Any = None,
        color_space: str = "srgb",
        color_format: str | None = None,
        swap_rounds: int = 24,
        random_state: int = 0,
        queue: CommandQueue | None = None,
    ) -> None:
        self.n_palettes = n_palettes
        self.n_colors = n_colors
        self.tile_size = tile_size
        self.shared_color = shared_color
        self.color_space = color_space
        self.color_format = color_format
        self.swap_rounds = swap_rounds
        self.random_state = random_state
        self.queue = queue

    @classmethod
    def with_palettes(
        cls,
        palettes: Sequence[Any],
        *,
        tile_size: Any = 8,
        color_space: str = "srgb",
        queue: CommandQueue | None = None,
    ) -> TilePalettes:
        """An engine of given palettes, which needs no `fit`: each tile takes the one of the least error.

        Parameters
        ----------
        palettes : list or tuple of palettes
            1 to 256 of 2 to 256 opaque colours; the first of all may have alpha 0. Shorter ones repeat their last.
        tile_size, color_space, queue
            The constructor's.

        Returns
        -------
        TilePalettes

        Raises
        ------
        InvalidType, InvalidArgument
            If a palette is none, or not allowed.
        """
        if not isinstance(palettes, list | tuple):
            raise InvalidType(f"palettes is {params.shown(palettes)}; allowed: a list or tuple of palettes")
        each = [as_palette(palette, f"palettes[{i}]").rgba() for i, palette in enumerate(palettes)]
        engine = cls(
            len(each), max(map(len, each), default=0), tile_size=tile_size, color_space=color_space, queue=queue
        )
        TileParams.of(vars(engine))
        colors = np.stack([np.pad(one, ((0, engine.n_colors - len(one)), (0, 0)), mode="edge") for one in each])
        firsts = set(colors[:, 0, 3].tolist())
        if firsts not in ({0}, {255}) or (colors[:, 1:, 3] < 255).any():
            raise InvalidArgument("palettes have alpha; allowed: opaque colours, after a first one of alpha 0 in all")
        engine.palettes_ = [Palette(one if firsts == {0} else one[:, :3]) for one in colors]
        engine.palette_ = Palette(np.concatenate([palette.colors for palette in engine.palettes_]))
        return engine

    def fit(self, images: Any, y: Any = None, *, progress: ProgressCallback | None = None) -> TilePalettes:  # noqa: ARG002
        """Learn palettes for the tiles of one image, or of several together.

        Parameters
        ----------
        images : image, or list, tuple or iterator of images
        y : None
            Ignored, as in scikit-learn's pipelines.
        progress : callable, optional
            Called with (done, total) rounds; returning False stops the job.

        Returns
        -------
        TilePalettes
            The engine itself.

        Raises
        ------
        InvalidType, InvalidArgument, FileError
            If an argument or a parameter is not allowed, or a file cannot be read.
        StoppedError
            If `progress` returned False; what was learned before stands.
        """
        given, report = TileParams.of(vars(self)), Progress(params.callback("progress", progress))
        pictures = read_many(materialize(images))
        session = open_session(self.queue, device_arrays(pictures))
        reserved = given.reserves or any(_has_holes(session, picture) for picture in pictures)
        steps = TileSteps(session, given.space, given.side, given.n_colors, int(reserved))
        with session.scope() as scope:
            fit = TileFit(given, steps, scope, pictures, reserved)
            colors = kept_colors(session, pictures, given, reserved)
            if colors is None:
                colors, cost = fit.run(report)
            else:
                cost = fit.cost(colors)
        self._keep(colors, given, reserved)
        self.inertia_ = cost / (steps.scale * given.space.unit) ** 2
        self.n_iter_ = fit.steps
        report.report(1, 1)
        return self

    def _keep(self, colors: Colors, given: TileParams, reserved: bool) -> None:
        if reserved:
            colors = np.concatenate([colors, np.full((*colors.shape[:2], 1), 255, np.uint8)], axis=2)
            colors[:, 0] = 0
            if given.shared is not None:
                colors[:, 0, :3] = given.shared
        self.palettes_ = [Palette(palette) for palette in colors]
        self.palette_ = Palette(colors.reshape(-1, colors.shape[2]))

    def predict(self, image: ImageLike, dither: Any = None, *, progress: ProgressCallback | None = None) -> Any:
        """Indices into `palette_` of an image's pixels; those of a tile are all of one palette.

        Parameters
        ----------
        image : image
        dither : None, str or OrderedDither
            Ordered dithering, ``"blue-noise"`` or ``"bayer"`` (or ``"bayer2"`` to ``"bayer16"``), with each tile's own
            palette; an error that is carried on would leave its tile. The choice of palettes is the same.
        progress : callable, optional
            Called with (rows done, rows); returning False stops the job.

        Returns
        -------
        ndarray or pyopencl.array.Array
            (H, W) uint8 if there are at most 256 entries in all, else uint16; on the device for a device array.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidArgument
            If pixels are transparent and the palettes have no entry for them, or an argument is not allowed.
        InvalidType, FileError, StoppedError
            If the image cannot be read, or `progress` returned False.
        """
        self._check_fitted("palettes_")
        given, report = TileParams.of(vars(self)), Progress(params.callback("progress", progress))
        way = checked_dither(dither)
        if hasattr(self, "n_iter_"):  # learned, not given by `with_palettes`
            way = for_learned(way)
        picture = images.read(image)
        session = open_session(self.queue, device_arrays([picture]))
        reserved = self.palette_.has_alpha
        if not reserved and _has_holes(session, picture):
            raise InvalidArgument("the image has transparent pixels; allowed: images like those of fit, which had none")
        colors = np.stack([palette.colors[:, :3] for palette in self.palettes_])
        job = Mapped(colors, given.space, given.side, int(reserved), self.palette_.index_dtype)
        made = flow.in_bands(session, picture, job, report)
        return made if way is None else self._dithered(session, picture, made, way, given)

    def _dithered(self, session: Session, picture: Picture, made: Any, way: Any, given: TileParams) -> Any:
        """The same choice of palettes with other entries."""
        found = np.array(made.get() if isinstance(made, Array) else made)
        colors = len(self.palettes_[0])
        numbers = np.kron(self.tile_numbers(found), np.ones(given.side, found.dtype))[: picture.height, : picture.width]
        pixels = picture.on_host(session)
        if picture.channels == 4:
            pixels = np.dstack([pixels[..., :3], np.where(pixels[..., 3:] < OPAQUE_ALPHA, 0, 255).astype(np.uint8)])
        for number, palette in enumerate(self.palettes_):
            mine = numbers == number
            if mine.any():
                chosen = self._dithered_by(pixels, palette, way, session)
                found[mine] = chosen[mine] + number * colors
        if not isinstance(made, Array):
            return found
        session.write(buffer_of(made), found)
        return session.hand_over(made)

    def _dithered_by(self, pixels: Colors, palette: Palette, way: Any, session: Session) -> npt.NDArray[Any]:
        how = {"color_space": self.color_space, "dither": way, "queue": session.queue}
        if not palette.has_alpha:
            return np.asarray(engine.predict(pixels, palette, **how))
        opaque = np.asarray(engine.predict(np.ascontiguousarray(pixels[..., :3]), palette.colors[1:, :3], **how)) + 1
        return np.asarray(np.where(pixels[..., -1] == 0, 0, opaque) if pixels.shape[2] == 4 else opaque)

    def transform(self, image: ImageLike, dither: Any = None, *, progress: ProgressCallback | None = None) -> Any:
        """The image in the colours of its tiles' palettes.

        Parameters
        ----------
        image, dither, progress
            As `predict` takes them.

        Returns
        -------
        ndarray or pyopencl.array.Array
            (H, W, 3) uint8, or (H, W, 4) if the palettes have alpha; on the device for a device array.

        Raises
        ------
        NotFittedError, InvalidArgument, InvalidType, FileError, StoppedError
            As `predict`.
        """
        return applied(self.predict(image, dither, progress=progress), self.palette_, self.queue)

    def quantize(
        self, image: ImageLike, dither: Any = None, *, progress: ProgressCallback | None = None
    ) -> IndexedImage:
        """The image as indices and `palette_`.

        Parameters
        ----------
        image, dither, progress
            As `predict` takes them.

        Returns
        -------
        IndexedImage

        Raises
        ------
        NotFittedError, InvalidArgument, InvalidType, FileError, StoppedError
            As `predict`.
        """
        return IndexedImage.of_own(self.predict(image, dither, progress=progress), self.palette_)

    def fit_predict(self, image: ImageLike, y: Any = None, *, progress: ProgressCallback | None = None) -> Any:
        """`fit` on one image, then `predict` of it; the image is read once.

        Parameters
        ----------
        image, y, progress
            As `fit` takes them, of one image; `progress` then as `predict`.

        Returns
        -------
        As `predict`.

        Raises
        ------
        InvalidArgument, InvalidType, FileError, StoppedError
            As `fit` and `predict`.
        """
        with images.sent(image, self.queue) as (_, picture):
            return self.fit(picture, y, progress=progress).predict(picture, progress=progress)

    def fit_transform(self, image: ImageLike, y: Any = None, *, progress: ProgressCallback | None = None) -> Any:
        """`fit` on one image, then `transform` of it; the image is read once.

        Parameters
        ----------
        image, y, progress
            As `fit` takes them, of one image; `progress` then as `transform`.

        Returns
        -------
        As `transform`.

        Raises
        ------
        InvalidArgument, InvalidType, FileError, StoppedError
            As `fit` and `transform`.
        """
        with images.sent(image, self.queue) as (_, picture):
            return self.fit(picture, y, progress=progress).transform(picture, progress=progress)

    def tile_numbers(self, picture: Any) -> npt.NDArray[Any]:
        """The palette of each tile.

        Parameters
        ----------
        picture : IndexedImage or (H, W) array
            What `quantize` or `predict` gave.

        Returns
        -------
        ndarray
            (tiles down, tiles across) integers below `n_palettes`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        self._check_fitted("palettes_")
        given = picture.host_indices() if isinstance(picture, IndexedImage) else picture
        indices = params.array("picture", given, "palette indices", "iu")
        if indices.ndim != 2:
            raise InvalidArgument(f"picture is {params.shown(picture)}; allowed: an IndexedImage or indices (H, W)")
        rows, columns = TileParams.of(vars(self)).side
        return np.asarray(indices[::rows, ::columns] // len(self.palettes_[0]))


def _has_holes(session: Session, picture: Picture) -> bool:
    """Whether some pixels are transparent."""
    return picture.channels == 4 and bool((picture.on_host(session)[..., 3] < OPAQUE_ALPHA).any())
