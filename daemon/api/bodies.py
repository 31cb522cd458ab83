"""What the bodies of requests have in common: no unknown member, and how urgent a job is."""

from __future__ import annotations

from typing import Literal

import pydantic


class Body(pydantic.BaseModel):
    """A body without members that nobody reads."""

    model_config = pydantic.ConfigDict(extra="forbid")


class JobBody(Body):
    """A body that makes a job."""

    priority: Literal[-10, 0, 10] = pydantic.Field(default=0, description="-10 is high, 0 normal, 10 low.")
