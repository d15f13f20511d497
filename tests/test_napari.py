"""The how-to for napari runs without a screen (pytest -p no:napari -W ignore: its plugin warns when loaded)."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.test_docs import ROOT, folder  # noqa: F401


@pytest.mark.full
def test_labels_and_pyramids_are_layers(folder, monkeypatch):  # noqa: F811
    napari = pytest.importorskip("napari")
    from napari.components import ViewerModel

    monkeypatch.setattr(napari, "Viewer", ViewerModel)
    page = (ROOT / "docs" / "how-to" / "napari.md").read_text(encoding="utf-8")
    names: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE):
        exec(compile(block, "napari.md", "exec"), names)
    picture, labels, pyramid = names["viewer"].layers
    assert picture.rgb
    assert set(np.unique(labels.data)) == set(names["colors"])
    for label, color in names["colors"].items():
        assert np.allclose(labels.get_color(label), color)
    assert pyramid.multiscale
    assert len(np.unique(np.asarray(pyramid.data[0]).reshape(-1, 3), axis=0)) <= 16
