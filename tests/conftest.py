"""What every test shares: hypothesis profiles, and the rule for tests that need Java."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import HealthCheck, Phase, settings

# Derandomised: `make test` gives the same verdict twice. The deep profiles look for news.
settings.register_profile(
    "fast", max_examples=50, deadline=None, derandomize=True, print_blob=True, database=None
)
settings.register_profile("deep", max_examples=5_000, deadline=None, print_blob=True)
settings.register_profile(
    "fuzz",
    max_examples=100_000,
    deadline=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

_JAVA_TOOLS = {"javac": "openjdk-17-jdk-headless", "mvn": "maven"}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a ``java`` test where Java is missing, and fail it on a build machine.

    A skipped test proves nothing, so a machine that calls itself CI may not skip.
    """
    if item.get_closest_marker("java") is None:
        return
    missing = [package for tool, package in _JAVA_TOOLS.items() if shutil.which(tool) is None]
    if not missing:
        return
    reason = f"needs a JDK and Maven: sudo apt-get install {' '.join(missing)}"
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
