"""Intel's runtime of PyPI is made known to the loader for the moment in which that asks, beside what the system has."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

from clquant.runtime.device import intel_package

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
    monkeypatch.setattr(intel_package.sys, "prefix", str(home))
    monkeypatch.setattr(intel_package, "_SYSTEM", str(system))
    monkeypatch.setattr(intel_package, "_asked", False)
    monkeypatch.delenv(intel_package.VENDORS_VARIABLE, raising=False)
    return home


def test_it_is_found_beside_the_system(environment: pathlib.Path) -> None:
    with intel_package.registered():
        folder = pathlib.Path(os.environ[intel_package.VENDORS_VARIABLE])
        found = {path.name: path.read_text().strip() for path in folder.glob("*.icd")}
    assert found == {"gpu.icd": "libgpu.so.1", "clquant-intel.icd": str(environment / "lib" / "libintelocl.so")}
    assert intel_package.VENDORS_VARIABLE not in os.environ
    assert not folder.exists()
    with intel_package.registered():  # loaders ask once
        assert intel_package.VENDORS_VARIABLE not in os.environ


def test_what_the_person_has_set_counts(environment: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(intel_package.VENDORS_VARIABLE, "/elsewhere/")
    with intel_package.registered():
        assert os.environ[intel_package.VENDORS_VARIABLE] == "/elsewhere/"


def test_without_the_package_nothing_changes(environment: pathlib.Path) -> None:
    (environment / "lib" / "libintelocl.so").unlink()
    assert intel_package.intel_library() is None
    with intel_package.registered():
        assert intel_package.VENDORS_VARIABLE not in os.environ


def test_where_nothing_can_be_written(environment: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(intel_package.tempfile, "TemporaryDirectory", full)
    with intel_package.registered():
        assert intel_package.VENDORS_VARIABLE not in os.environ
