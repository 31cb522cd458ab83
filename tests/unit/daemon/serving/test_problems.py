from __future__ import annotations

import asyncio
import json
from typing import Any

from ansible_collections.roundsman.cluster.daemon.api import answers
from ansible_collections.roundsman.cluster.daemon.serving import problems


def test_a_problem_has_the_members_that_the_daemons_have() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(problems.answer(send, 403, "no", headers=[(b"x-more", b"1")]))
    theirs = answers._problem(403, "no")
    assert json.loads(sent[1]["body"]) == json.loads(bytes(theirs.body))
    assert (sent[0]["status"], dict(sent[0]["headers"])) == (
        403,
        {
            b"content-type": b"application/problem+json",
            b"content-length": str(len(sent[1]["body"])).encode(),
            b"x-more": b"1",
        },
    )
