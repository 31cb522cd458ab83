from __future__ import annotations

import asyncio

from ansible_collections.roundsman.cluster.daemon import news


def test_news_wakes_everyone_who_waits_for_it() -> None:
    async def story() -> list[int]:
        one = news.News()
        waiting = [asyncio.create_task(one.after(0, seconds=600)) for _ in range(3)]
        await asyncio.sleep(0)
        one.tell()
        return await asyncio.wait_for(asyncio.gather(*waiting), 60)

    assert asyncio.run(story()) == [1, 1, 1]


def test_old_news_is_told_at_once_and_no_news_after_the_time() -> None:
    async def story() -> tuple[int, int]:
        one = news.News()
        one.tell()
        return await one.after(0, seconds=600), await one.after(1, seconds=0.01)

    assert asyncio.run(story()) == (1, 1)
