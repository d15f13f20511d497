"""Sphinx: `python -m sphinx -W -b html docs build/site`, from the root of a clone with the extras `docs` and `pocl`."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]
os.environ["COLUMNS"] = "100"  # the width of the command's help

import clquant  # noqa: E402
from clquant import cli  # noqa: E402

project = "clquant"
author = "The clquant developers"
project_copyright = author
version = release = clquant.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "command_help",
]
templates_path = ["_templates"]
exclude_patterns = ["_ext", "benchmarks", "gallery/**/*.md5", "gallery/**/*.ipynb", "gallery/**/*.py"]
default_role = "code"
highlight_language = "python"


def find_repository() -> str:
    """The web address of the clone's origin, or "" if it has none."""
    command = ["git", "-C", str(HERE), "config", "--get", "remote.origin.url"]
    try:
        origin = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
    found = re.fullmatch(r"(?:https://|git@|ssh://git@)(?:[^@/]*@)?([\w.-]+)[:/](.+?)(?:\.git)?/?", origin)
    return f"https://{found[1]}/{found[2]}" if found else ""


repository = find_repository()
myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "substitution"]
myst_substitutions = {
    "version": release,
    "repository": f"[the repository]({repository})" if repository else "the repository",
}
myst_heading_anchors = 4

autodoc_typehints = "none"  # the docstrings give types
autosummary_generate = True
autosummary_imported_members = True
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": True,
    "remove_config_comments": True,
    "show_memory": False,
    "image_scrapers": ("matplotlib",),
    "plot_gallery": "True",
}

html_theme = "pydata_sphinx_theme"
html_title = "clquant"
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": True,
    "icon_links": [{"name": "Repository", "url": repository, "icon": "fa-brands fa-git-alt"}] if repository else [],
}
html_static_path: list[str] = []
html_show_sourcelink = False


def write_compare_page(app: Any, failure: Exception | None) -> None:
    """The page that compare.md shows: the sample by every method, beside the site's pages."""
    if failure is not None or app.builder.name != "html":
        return
    sample = HERE / "images" / "red_eyed_tree_frog.png"
    with tempfile.TemporaryDirectory() as folder:
        made = ["-o", f"{folder}/sheet.png", "--html", str(pathlib.Path(app.outdir) / "compare-frog.html")]
        if cli.main(["compare", str(sample), "-k", "16", "--crop", "480", "--force", "-q", *made]):
            raise RuntimeError("clquant compare failed")


def link_pages(*about_and_lines: Any) -> None:
    """Make the pages that a docstring names by their files links; the last argument has its lines."""
    lines = about_and_lines[-1]
    lines[:] = [re.sub(r"docs/([\w/-]+)\.md", r":doc:`/\1`", line) for line in lines]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", link_pages, priority=900)
    app.connect("build-finished", write_compare_page)
