"""The wheel and the sdist: built, installed away from the checkout, and used on a picture."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parent.parent
BUILD = "import sys, setuptools.build_meta as b; out = sys.argv[1]; b.build_sdist(out); b.build_wheel(out)"
WHEEL_ONLY = "import sys, setuptools.build_meta as b; b.build_wheel(sys.argv[1])"

USE = """
import pathlib, sys
import numpy as np
import clquant
from clquant.palette.engine import quantize

assert pathlib.Path(clquant.__file__).is_relative_to(sys.argv[1]), clquant.__file__
assert not (pathlib.Path(clquant.__file__).parent.parent / "cl").exists()
image = np.arange(64 * 64 * 3, dtype=np.uint32).reshape(64, 64, 3).astype(np.uint8)
palette = clquant.Palette([[0, 0, 0], [255, 255, 255], [128, 64, 0]])
result = quantize(image, palette)
assert result.shape == (64, 64)
result.save("picture.png")
"""


def python(arguments: list[str], cwd: pathlib.Path, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def kernels() -> set[str]:
    return {path.relative_to(ROOT / "cl").as_posix() for path in (ROOT / "cl").rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the sdist and the wheel of a copy of the checkout."""
    copy = tmp_path_factory.mktemp("source") / "clquant"
    unwanted = shutil.ignore_patterns(".git", ".*cache*", ".venv", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=unwanted)
    out = tmp_path_factory.mktemp("dist")
    python(["-c", BUILD, str(out)], copy)
    return out


def installed(wheel: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    target = folder / "installed"
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    python(install, folder)
    return target


@pytest.mark.full
def test_the_wheel_quantizes_a_picture_outside_the_checkout(distributions, tmp_path):
    (wheel,) = distributions.glob("*.whl")
    target = installed(wheel, tmp_path)
    python(["-c", USE, str(target)], tmp_path, PYTHONPATH=str(target))
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.full
def test_the_wheel_holds_every_module_kernel_and_data_file(distributions):
    (wheel,) = distributions.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "clquant"
    wanted = {
        p.relative_to(ROOT).as_posix()
        for p in package.rglob("*")
        if p.suffix in (".py", ".npz", ".html", ".json", ".typed")
    }
    assert wanted <= names
    assert {f"clquant/kernels/{name}" for name in kernels()} <= names
    assert not any(name.startswith(("tests/", "benchmarks/", "portability/")) for name in names)


@pytest.mark.full
def test_a_wheel_built_from_the_sdist_is_the_same(distributions, tmp_path):
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # the default only from Python 3.14 on
        archive.extractall(tmp_path)
    (source,) = (path for path in tmp_path.iterdir() if path.is_dir())
    told_of = ("tests/conftest.py", "docs/conf.py", ".ci/run", ".pre-commit-config.yaml")
    for name in ("README.md", "docs/images/red_eyed_tree_frog.png", "LICENSE", *told_of):
        assert (source / name).exists(), name
    out = tmp_path / "out"
    out.mkdir()
    python(["-c", WHEEL_ONLY, str(out)], source)
    (again,) = out.glob("*.whl")
    (wheel,) = distributions.glob("*.whl")
    assert set(zipfile.ZipFile(again).namelist()) == set(zipfile.ZipFile(wheel).namelist())


def test_the_version_is_the_same_everywhere() -> None:
    found = {
        file: re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
        for file, pattern in {
            "clquant/__init__.py": r'^__version__ = "(.*)"$',
            "setup.cfg": r"^version = (.*)$",
            "CITATION.cff": r"^version: (.*)$",
            "conda/meta.yaml": r'set version = "(.*)"',
        }.items()
    }
    assert len(set(found.values())) == 1, found
