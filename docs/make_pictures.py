"""Make the pictures of README and docs from the sample: `python docs/make_pictures.py` in the checkout."""

from __future__ import annotations

import pathlib

import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFilter

import clquant

FOLDER = pathlib.Path(__file__).parent / "images"
LABEL_HEIGHT = 18


def panels(pictures: list[tuple[str, npt.NDArray[np.uint8]]], columns: int) -> PIL.Image.Image:
    """Pictures of one size beside and below each other, each with its label under it."""
    height, width = pictures[0][1].shape[:2]
    rows = -(-len(pictures) // columns)
    sheet = PIL.Image.new("RGB", (columns * width, rows * (height + LABEL_HEIGHT)), "white")
    draw = PIL.ImageDraw.Draw(sheet)
    for number, (label, picture) in enumerate(pictures):
        left, top = number % columns * width, number // columns * (height + LABEL_HEIGHT)
        sheet.paste(PIL.Image.fromarray(picture), (left, top))
        draw.text((left + 4, top + height + 3), label, fill="black")
    return sheet


def front_page(frog: npt.NDArray[np.uint8]) -> None:
    """Write the picture of README and the site's front page: the original beside Pillow's 16 colours and ours."""
    crop = np.ascontiguousarray(frog[80:320, 130:370])
    ways = [
        (f"Original: {len(np.unique(crop.reshape(-1, 3), axis=0)):,} colours", crop),
        ("16 colours, Pillow's quantize", np.asarray(PIL.Image.fromarray(crop).quantize(16).convert("RGB"))),
        ("16 colours, clquant's SpatialPalette", clquant.SpatialPalette(16).fit_transform(crop)),
    ]
    panels(ways, 3).save(FOLDER / "front_page.png", optimize=True)


def halftones(frog: npt.NDArray[np.uint8]) -> None:
    """Write the pictures of halftone.md: a ramp and a photo at several block sizes, levels and six colours."""
    gray = np.asarray(PIL.Image.fromarray(frog[80:336, 130:450]).convert("L"))
    ramp = np.tile(np.rint(np.linspace(0, 255, 640)).astype(np.uint8), (64, 1))
    ways = {"floyd_steinberg (serial)": clquant.floyd_steinberg}
    ways |= {f"PinwheelHalftoner({n})": clquant.PinwheelHalftoner(n).transform for n in (8, 16, 32, 64)}
    constant = clquant.PinwheelHalftoner(32, weights="constant")
    ways['PinwheelHalftoner(32, weights="constant")'] = constant.transform
    for name, picture, columns in (("ramps", ramp, 1), ("photos", gray, 3)):
        made = [(label, np.repeat(way(picture)[:, :, None], 3, axis=2)) for label, way in ways.items()]
        panels(made, columns).save(FOLDER / f"halftone_{name}.png", optimize=True)
    epaper = clquant.Palette([(0, 0, 0), (255, 255, 255), (0, 160, 0), (0, 0, 255), (255, 0, 0), (255, 255, 0)])
    color = np.ascontiguousarray(frog[80:336, 130:450])
    levels = np.asarray(clquant.PinwheelHalftoner(levels=4).transform(gray))
    several = [
        ("4 levels, block 32", np.repeat(levels[:, :, None], 3, axis=2)),
        ("6 colours, pinwheel", epaper.colors[clquant.PinwheelHalftoner(palette=epaper).transform(color)]),
        ("6 colours, serial", epaper.colors[clquant.floyd_steinberg(color, epaper)]),
    ]
    panels(several, 3).save(FOLDER / "halftone_colors.png", optimize=True)


def searches(frog: npt.NDArray[np.uint8]) -> None:
    """Write the pictures of search-dithering.md: at their size, magnified, and after a blur; and halftones refined."""
    crop = np.ascontiguousarray(frog[100:260, 240:480])
    means, spatial = clquant.KMeansPalette(8).fit(crop), clquant.SpatialPalette(8).fit(crop)
    ways = {
        "original": crop,
        "k-means, floyd-steinberg": means.transform(crop, "floyd-steinberg"),
        "k-means, search": means.transform(crop, "search"),
        "SpatialPalette": spatial.transform(crop),
    }
    blur = PIL.ImageFilter.GaussianBlur(2)
    rows = [
        list(ways.items()),
        [("4 times", np.kron(p[60:100, 100:160], np.ones((4, 4, 1), np.uint8))) for p in ways.values()],
        [("blurred", np.asarray(PIL.Image.fromarray(p).filter(blur))) for p in ways.values()],
    ]
    panels([cell for row in rows for cell in row], 4).save(FOLDER / "search_dithers.png", optimize=True)
    gray = np.asarray(PIL.Image.fromarray(crop).convert("L"))
    halftoner = clquant.PinwheelHalftoner()
    found = {"floyd_steinberg": clquant.floyd_steinberg(gray), "pinwheel": halftoner.transform(gray)}
    found |= {"refine=2": halftoner.transform(gray, refine=2)}
    made = [(label, np.repeat(picture[:, :, None], 3, axis=2)) for label, picture in found.items()]
    panels(made, 3).save(FOLDER / "search_halftones.png", optimize=True)


def main() -> None:
    """Write the pictures."""
    with PIL.Image.open(FOLDER / "red_eyed_tree_frog.png") as image:
        frog = np.asarray(image.convert("RGB"))
    front_page(frog)
    halftones(frog)
    searches(frog)
    crop = np.ascontiguousarray(frog[80:370, 130:450])

    def shown(count: int, **options: str) -> npt.NDArray[np.uint8]:
        dither = options.pop("dither", None)
        learner = clquant.KMeansPalette(count, **options).fit(crop)
        result: npt.NDArray[np.uint8] = learner.transform(crop, dither)
        return result

    dithers = [
        ("8 colours, no dither", shown(8)),
        ('dither="bayer4"', shown(8, dither="bayer4")),
        ('dither="bayer8"', shown(8, dither="bayer8")),
        ('dither="blue-noise"', shown(8, dither="blue-noise")),
        ('dither="floyd-steinberg"', shown(8, dither="floyd-steinberg")),
        ('dither="pinwheel"', shown(8, dither="pinwheel")),
    ]
    panels(dithers, 3).save(FOLDER / "frog_dithers.png", optimize=True)
    spaces = [
        (f'12 colours, color_space="{name}"', shown(12, color_space=name)) for name in ("srgb", "linear", "oklab")
    ]
    panels(spaces, 3).save(FOLDER / "frog_spaces.png", optimize=True)
    vector_quantized(crop)
    quadtrees(crop)


def vector_quantized(crop: npt.NDArray[np.uint8]) -> None:
    """The crop through codebooks of several sizes, and one of these codebooks."""
    shown = [("original", crop)]
    for size in (32, 128, 512):
        codec = clquant.VQCodec(size).fit(crop)
        data = codec.compress(crop, embed_codebook=False)
        label = f"{size} codewords: {8 * len(data) / (crop.shape[0] * crop.shape[1]):.2f} bits a pixel + codebook"
        shown.append((label, codec.decompress(data)))
        if size == 512:
            blocks = codec.codebook_.reshape(16, 32, 4, 4, 3)
    panels(shown, 2).save(FOLDER / "frog_vq.png", optimize=True)
    sheet = np.full((16, 32, 5, 5, 3), 255, np.uint8)
    sheet[:, :, :4, :4] = blocks
    sheet = sheet.transpose(0, 2, 1, 3, 4).reshape(80, 160, 3).repeat(4, axis=0).repeat(4, axis=1)
    PIL.Image.fromarray(sheet).save(FOLDER / "vq_codebook.png", optimize=True)


def quadtrees(picture: npt.NDArray[np.uint8]) -> None:
    """The pictures of docs/quadtree.md."""
    shown = []
    for threshold in (8, 13, 30):
        tree = clquant.QuadtreeBuilder(threshold).build(picture)
        shown.append((f"threshold {threshold}: {len(tree)} leaves", tree.render()))
        shown.append((f"outline, PSNR {tree.compression()['psnr']:.1f} dB", tree.outline()))
    panels([shown[i] for i in (0, 2, 4, 1, 3, 5)], 3).save(FOLDER / "quadtree_thresholds.png", optimize=True)
    tree = clquant.QuadtreeBuilder(13).build(picture)
    levels = [(f"depth {depth}", frame) for depth, frame in enumerate(tree.frames()) if depth in (2, 4, 5, 6, 7, 9)]
    panels(levels, 3).save(FOLDER / "quadtree_levels.png", optimize=True)


if __name__ == "__main__":
    main()
