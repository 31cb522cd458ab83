"""What holds for all tests."""

from __future__ import annotations

import hypothesis

USUAL = hypothesis.settings()
# How long an example takes is the machine's matter: two processes test at a time, and others work beside them.
hypothesis.settings.register_profile(
    "patient",
    USUAL,
    deadline=None,
    suppress_health_check=[*USUAL.suppress_health_check, hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("patient")
