from __future__ import annotations

import re
from html.parser import HTMLParser

import orjson
from ansible_collections.roundsman.cluster.daemon.api import page

from tests.unit.daemon.cli import canned


class Elements(HTMLParser):
    """The opening tags of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def html(*, name: str = "north") -> str:
    return bytes(page.answer(canned.service(name=name)).body).decode()


def policy() -> dict[str, str]:
    header = page.answer(canned.service()).headers["Content-Security-Policy"]
    return {one.split()[0]: one.split(maxsplit=1)[1] for one in header.split("; ")}


def test_the_policy_admits_nothing_but_the_page_itself() -> None:
    rules = policy()
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in "".join(rules.values())


def test_script_and_style_carry_the_nonce_of_their_own_answer() -> None:
    answer = page.answer(canned.service())
    elements = Elements(bytes(answer.body).decode()).found
    nonces = [attributes.get("nonce") for tag, attributes in elements if tag in {"script", "style"}]
    assert len(nonces) == 2
    assert {f"'nonce-{one}'" for one in nonces} == {policy_of(answer.headers["Content-Security-Policy"])}


def policy_of(header: str) -> str:
    found = re.search(r"script-src (\S+);", header)
    assert found is not None
    assert f"style-src {found[1]}" in header
    return found[1]


def test_two_answers_never_share_a_nonce() -> None:
    assert policy()["script-src"] != policy()["script-src"]


def test_no_element_has_an_inline_style_or_handler() -> None:
    attributes = {name for _, found in Elements(html()).found for name in found}
    assert not {one for one in attributes if one == "style" or one.startswith("on")}


def test_the_page_names_no_address_outside() -> None:
    assert re.findall(r"https?://|//[a-z]|@import|url\(", html()) == []


def test_what_a_node_says_is_never_part_of_the_html() -> None:
    service = canned.service()
    told = orjson.loads(orjson.dumps(page.state(service, canned.snapshots_of(service))))
    assert "<script>alert(1)</script>" in told["originals"][canned.LOST]
    assert "alert(" not in html()


def test_the_name_of_a_cluster_is_escaped() -> None:
    assert "<script>alert" not in html(name="<script>alert(3)</script>")
    assert "&lt;script&gt;alert(3)" in html(name="<script>alert(3)</script>")


def test_the_script_makes_text_only() -> None:
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", html()) == []


def test_the_state_gives_the_words_of_a_node_with_every_digit() -> None:
    service = canned.service()
    assert page.state(service, canned.snapshots_of(service))["originals"][canned.BROKEN] == canned.ORIGINAL


def test_changes_of_incidents_are_announced_to_screen_readers() -> None:
    elements = Elements(html()).found
    assert {"id": "news", "class": "unseen", "role": "status", "aria-live": "polite"} in [one for _, one in elements]
    assert [tag for tag, _ in elements].count("h1") == 1
