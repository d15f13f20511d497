"""Lowering limits of devices and bounds of the library for one test."""

from __future__ import annotations

import os

import pytest


def lower(monkeypatch: pytest.MonkeyPatch, **numbers: int) -> None:
    """Add to `CLQUANT_LIMITS`; a name has two underscores for the dot of a bound."""
    given = [f"{name.replace('__', '.')}={number}" for name, number in numbers.items()]
    monkeypatch.setenv("CLQUANT_LIMITS", ",".join(filter(None, [os.environ.get("CLQUANT_LIMITS", ""), *given])))
