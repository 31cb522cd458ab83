"""What holds for all tests."""

from __future__ import annotations

import hypothesis

# How long an example takes is the machine's matter: two processes test at a time, and others work beside them.
hypothesis.settings.register_profile(
    "patient",
    hypothesis.settings.default,
    deadline=None,
    suppress_health_check=[*hypothesis.settings.default.suppress_health_check, hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("patient")
