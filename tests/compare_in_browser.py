"""`python -m tests.compare_in_browser`: the page of `clquant compare --html` in Chromium, by keys, pointer and touch.

Not a test of the suite, since Chromium and its driver are not on every machine; `.ci/run` runs it if they are.
`--screenshot FILE` keeps what was seen.
"""

from __future__ import annotations

import argparse
import io
import pathlib
import re
import shutil
import sys
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from clquant.cli import main as command

SAMPLE = pathlib.Path(__file__).parent.parent / "docs" / "images" / "red_eyed_tree_frog.png"
ZOOM = 2


def browser() -> Any:
    """Chromium without a window, which keeps its console."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1000,900"):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))


def shown_share(page: Any) -> float:
    """How much of the left picture is shown, by the style of the picture above."""
    style = page.find_element(By.ID, "above").value_of_css_property("clip-path")
    found = re.fullmatch(r"inset\(0(?:px|%)? ([\d.]+)(%|px) 0(?:px|%)? 0(?:px|%)?\)", style)
    if found is None:
        raise AssertionError(f"the picture above is clipped by {style!r}")
    return 1 - float(found[1]) / 100


def seen(page: Any) -> npt.NDArray[np.uint8]:
    """The stage as it is drawn."""
    with PIL.Image.open(io.BytesIO(page.find_element(By.ID, "stage").screenshot_as_png)) as image:
        return np.asarray(image.convert("RGB"))


def drag(page: Any, element: Any, begin: float, end: float) -> None:
    """A finger that comes down on an element at a share of its width, moves, and goes."""
    box = page.execute_script(
        "const b = arguments[0].getBoundingClientRect(); return [b.x, b.y, b.width, b.height]", element
    )
    height = box[1] + box[3] / 2
    for kind, share in (
        ("touchStart", begin),
        ("touchMove", (begin + end) / 2),
        ("touchMove", end),
        ("touchEnd", None),
    ):
        points = [] if share is None else [{"x": box[0] + share * box[2], "y": height}]
        page.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def check(page: Any, original: npt.NDArray[np.uint8]) -> list[str]:
    """What was looked at; raises AssertionError if the page is not as it should be."""
    slider = page.find_element(By.ID, "slider")
    assert shown_share(page) == 0.5
    slider.send_keys(Keys.ARROW_RIGHT * 20)
    assert shown_share(page) == 0.6
    slider.send_keys(Keys.HOME)
    assert shown_share(page) == 0
    slider.send_keys(Keys.END)
    assert shown_share(page) == 1
    half = slider.size["width"] // 4
    ActionChains(page).move_to_element_with_offset(slider, -half, 0).click().perform()
    assert 0.2 < shown_share(page) < 0.3
    page.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 1})
    drag(page, slider, shown_share(page), 0.75)
    assert 0.7 < shown_share(page) < 0.8, shown_share(page)
    Select(page.find_element(By.ID, "zoom")).select_by_visible_text(str(ZOOM))
    slider.send_keys(Keys.END)
    drawn, width = seen(page), 300
    enlarged = original.repeat(ZOOM, axis=0).repeat(ZOOM, axis=1)[:width, :width]
    assert np.array_equal(drawn[:width, : width - 10], enlarged[:, : width - 10]), "the original is not drawn as it is"
    Select(page.find_element(By.ID, "left")).select_by_index(2)
    assert not np.array_equal(seen(page)[:width, : width - 10], drawn[:width, : width - 10])
    cells = [cell.text for cell in page.find_elements(By.CSS_SELECTOR, "td")]
    assert len(cells) > 10
    assert all(cells)
    loaded = page.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert all(name.startswith("data:") for name in loaded), loaded
    said = page.get_log("browser")
    assert said == [], said
    return ["keys", "pointer", "touch", "zoom by whole pixels", "figures", "nothing loaded", "a clean console"]


def main() -> int:
    """Make the page, look at it, and print what was looked at."""
    parser = argparse.ArgumentParser(prog="tests.compare_in_browser", description=__doc__)
    parser.add_argument("--screenshot", type=pathlib.Path)
    screenshot = parser.parse_args().screenshot
    with PIL.Image.open(SAMPLE) as image, tempfile.TemporaryDirectory() as folder:
        crop = image.convert("RGB").crop((150, 100, 550, 400))
        path = pathlib.Path(folder)
        crop.save(path / "crop.png")
        given = ["compare", str(path / "crop.png"), "-q", "-k", "8", "-o", str(path / "sheet.png")]
        if command([*given, "--html", str(path / "page.html")]) != 0:
            return 1
        try:
            page = browser()
        except WebDriverException as error:
            print(f"Chromium does not start, so the page was not drawn: {error.msg}")
            return 0
        try:
            page.get((path / "page.html").as_uri())
            print("the page in Chromium:", ", ".join(check(page, np.asarray(crop))))
            if screenshot is not None:
                page.save_screenshot(str(screenshot))
        finally:
            page.quit()
    return 0


if __name__ == "__main__":
    sys.exit(main())
