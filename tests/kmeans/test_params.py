"""What `KMeansPalette` takes: stored parameters, those that are refused, and results before `fit`."""

from __future__ import annotations

import numpy as np
import pytest

from clquant import KMeansPalette, runtime


def test_parameters_are_stored_and_checked_in_fit(queue):
    engine = KMeansPalette("many", queue=queue)
    assert engine.get_params()["n_colors"] == "many"
    engine.set_params(n_colors=4)
    assert engine.fit(np.zeros((2, 2), np.uint8)).palette_.colors.tolist() == [[0, 0, 0]]


FLAT = np.zeros((2, 3, 3), np.uint8)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_colors": 0}, "n_colors is 0; allowed"),
        ({"n_colors": 65537}, "n_colors is 65537; allowed"),
        ({"n_colors": 3.0}, "n_colors is 3.0; allowed"),
        ({"n_colors": True}, "n_colors is True; allowed"),
        ({"n_colors": None}, "n_colors is None; allowed"),
        ({"init": "best"}, "init is 'best'; allowed"),
        ({"init": None}, "init has shape"),
        ({"init": np.zeros((3, 3), np.uint8)}, "init has 3 colours; allowed: n_colors = 256"),
        ({"init": np.zeros((256, 2), np.uint8)}, "init has shape"),
        ({"init": np.zeros((256, 3))}, "init has dtype float64"),
        ({"init": np.full((256, 3), 256)}, "init holds values"),
        ({"n_init": 0}, "n_init is 0; allowed"),
        ({"max_iter": 0}, "max_iter is 0; allowed"),
        ({"max_iter": 2.5}, "max_iter is 2.5; allowed"),
        ({"tol": -1e-3}, "tol is -0.001; allowed"),
        ({"tol": 1}, "tol is 1; allowed"),
        ({"tol": float("nan")}, "tol is nan; allowed"),
        ({"tol": "0"}, "tol is '0'; allowed"),
        ({"swap_rounds": -1}, "swap_rounds is -1; allowed"),
        ({"color_space": "lab"}, "color_space is 'lab'; allowed"),
        ({"random_state": 0.5}, "random_state is 0.5; allowed"),
        ({"random_state": -1}, "random_state is -1; allowed"),
        ({"queue": 3}, "queue is 3"),
    ],
)
def test_parameters_that_are_not_allowed(parameters, message):
    with pytest.raises(runtime.ClquantError, match=message):
        KMeansPalette(**parameters).fit(FLAT)


@pytest.mark.parametrize(
    ("images", "weight", "message"),
    [
        ([], None, "images is empty"),
        (None, None, "images is None"),
        (np.zeros((0, 3), np.uint8), None, "no pixels"),
        (np.zeros((2, 2, 2), np.uint8), None, "has the shape"),
        (np.zeros((2, 2), complex), None, "allowed: integers"),
        ("no such file.png", None, "no such file"),
        ([FLAT, "no such file.png"], None, "no such file"),
        (FLAT, np.ones((3, 2)), "sample_weight has shape"),
        (FLAT, np.zeros((2, 3)), "allowed: a finite sum above 0"),
        (FLAT, np.full((2, 3), -1), "negative"),
        (FLAT, np.full((2, 3), 2**37), "adds up to"),
        (FLAT, np.ones((2, 3), complex), "sample_weight is .*dtype complex128"),
        ([FLAT, FLAT], [np.ones((2, 3))], "one for each of 2 images"),
    ],
)
def test_images_and_weights_that_are_not_allowed(images, weight, message):
    with pytest.raises(runtime.ClquantError, match=message):
        KMeansPalette(4).fit(images, weight)


def test_results_before_fit_are_refused():
    with pytest.raises(runtime.NotFittedError, match="call fit first"):
        KMeansPalette(4).predict(FLAT)


def test_progress_must_be_callable():
    with pytest.raises(runtime.InvalidType, match="progress is 3"):
        KMeansPalette(4).fit(FLAT, progress=3)
