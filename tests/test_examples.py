"""The gallery's examples run, each as the site's build runs it."""

from __future__ import annotations

import pathlib
import runpy

import pytest

plt = pytest.importorskip("matplotlib.pyplot")
FOLDER = pathlib.Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("plot_*.py"))


@pytest.mark.full
@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_draws_a_figure(path, monkeypatch):
    monkeypatch.chdir(FOLDER)
    plt.switch_backend("agg")
    try:
        runpy.run_path(str(path))
        assert plt.get_fignums()
    finally:
        plt.close("all")
