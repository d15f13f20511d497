"""Intel's runtime of PyPI is made known to the loader for the moment in which that asks, beside what the system has."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

from clquant.runtime.device import vendors

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows' loader reads the registry")


@pytest.fixture
def environment(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An environment that has the package, and a system with two drivers of which one is gone."""
    home = tmp_path / "home"
    (home / "lib").mkdir(parents=True)
    (home / "lib" / "libintelocl.so").write_bytes(b"")
    system = tmp_path / "vendors"
    system.mkdir()
    (system / "gpu.icd").write_text("libgpu.so.1\n")
    (system / "gone.icd").write_text("/opt/anaconda1anaconda2anaconda3/lib/libintelocl.so\n")
    monkeypatch.setattr(vendors.sys, "prefix", str(home))
    monkeypatch.setattr(vendors, "_SYSTEM", str(system))
    monkeypatch.setattr(vendors, "_asked", False)
    monkeypatch.delenv(vendors.VENDORS_VARIABLE, raising=False)
    return home


def test_it_is_found_beside_the_system(environment: pathlib.Path) -> None:
    with vendors.registered():
        folder = pathlib.Path(os.environ[vendors.VENDORS_VARIABLE])
        found = {path.name: path.read_text().strip() for path in folder.glob("*.icd")}
    assert found == {"gpu.icd": "libgpu.so.1", "clquant-intel.icd": str(environment / "lib" / "libintelocl.so")}
    assert vendors.VENDORS_VARIABLE not in os.environ
    assert not folder.exists()
    with vendors.registered():  # loaders ask once
        assert vendors.VENDORS_VARIABLE not in os.environ


def test_what_the_person_has_set_counts(environment: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(vendors.VENDORS_VARIABLE, "/elsewhere/")
    with vendors.registered():
        assert os.environ[vendors.VENDORS_VARIABLE] == "/elsewhere/"


def test_without_the_package_nothing_changes(environment: pathlib.Path) -> None:
    (environment / "lib" / "libintelocl.so").unlink()
    assert vendors.intel_library() is None
    with vendors.registered():
        assert vendors.VENDORS_VARIABLE not in os.environ


def test_where_nothing_can_be_written(environment: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(vendors.tempfile, "TemporaryDirectory", full)
    with vendors.registered():
        assert vendors.VENDORS_VARIABLE not in os.environ
