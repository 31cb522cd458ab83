"""What the bodies of requests have in common: no unknown member, and how urgent a job is."""

from __future__ import annotations

import pydantic

from . import submissions


class Body(pydantic.BaseModel):
    """A body without members that nobody reads."""

    model_config = pydantic.ConfigDict(extra="forbid")


class JobBody(Body):
    """A body that makes a job."""

    priority: int = pydantic.Field(
        default=0,
        ge=submissions.PRIORITIES[0],
        le=submissions.PRIORITIES[1],
        description="The smaller, the more urgent.",
    )
