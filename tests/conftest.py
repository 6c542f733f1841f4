"""Fixtures that every test may use, and the settings of the property tests."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from worlds import NOW

# The same examples at every run: a failure seen once is seen again, and no machine is too slow for a limit.
settings.register_profile(
    "memsel",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("memsel")


class Clock:
    """What ``time.time`` answers while a test runs."""

    def __init__(self) -> None:
        self.now: float = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """``time.time`` stands at NOW, or wherever the test sets ``clock.now``."""
    stopped = Clock()
    monkeypatch.setattr(time, "time", stopped)
    yield stopped
