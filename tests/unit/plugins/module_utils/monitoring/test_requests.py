from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import collected
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import requests
from hypothesis import given
from hypothesis import strategies as st


def head(*lines: bytes) -> bytes:
    return b"\r\n".join([*lines, b"", b""])


def test_a_path_is_read_without_its_query() -> None:
    asked = requests.parse(head(b"GET /1/report/all?x=1 HTTP/1.1", b"Host: node1:1815"))
    assert asked == requests.Asked("/1/report/all", has_body=True)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (head(b"POST / HTTP/1.1"), 405),
        (head(b"GET /1/leader HTTP/1.1"), 405),
        (head(b"POST /1/leader HTTP/1.1"), 400),
        (head(b"POST /1/leader HTTP/1.1", b"Content-Length: 0"), 400),
        (head(b"POST /1/leader HTTP/1.1", b"Content-Length: 5", b"Content-Length: 6"), 400),
        (head(b"POST /1/leader HTTP/1.1", b"Content-Length: 999999"), 413),
        (head(b"POST /1/leader?x HTTP/1.1", b"Content-Length: 5"), 405),
        (head(b"DELETE /1/report/node/diagnose HTTP/1.1"), 405),
        (head(b"GET / HTTP/2.0"), 400),
        (head(b"GET /"), 400),
        (head(b"GET http://node1/ HTTP/1.1"), 400),
        (head(b"GET /\xc3\xa4 HTTP/1.1"), 400),
        (head(b"GET / HTTP/1.1", b"no header"), 400),
        (head(b"\x16\x03\x01\x02"), 400),
        (head(), 400),
    ],
)
def test_what_is_no_request_is_refused(data: bytes, status: int) -> None:
    with pytest.raises(requests.BadRequest) as refused:
        requests.parse(data)
    assert refused.value.status == status


def test_a_question_about_the_leader_says_how_long_it_is() -> None:
    asked = requests.parse(head(b"POST /1/leader HTTP/1.1", b"content-length: 12"))
    assert asked == requests.Asked("/1/leader", has_body=True, length=12)


@given(st.binary(max_size=200) | st.text("GET /1report.%?HTP\r\n :", max_size=60).map(str.encode))
def test_whatever_comes_is_a_path_or_refused(data: bytes) -> None:
    try:
        path = requests.parse(data).path
    except requests.BadRequest:
        return
    assert path.startswith("/")
    assert path.isascii()


@given(st.text("/.%1reportnodeal-A\n\0", max_size=60).map("/1/report/".__add__) | st.text())
def test_no_path_leads_out_of_the_folder_of_reports(path: str) -> None:
    name = requests.report_file(path)
    parts = name.split("/")
    assert name == "" or (len(parts) == 2 and all(part and not part.startswith(".") for part in parts))


def test_the_file_of_a_report_is_its_category_and_name() -> None:
    assert requests.report_file("/1/report/default/cpu-avg-load") == "default/cpu-avg-load"


def test_who_waits_for_a_change_says_what_is_known_and_for_how_long() -> None:
    known = "0123456789abcdef" * 4
    path = collected.waiting_path(collected.DIAGNOSE, known=known, seconds=50.0)
    asked = requests.parse(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    assert asked == requests.Asked("/1/report/node/diagnose", has_body=True, after=known, seconds=50.0)


@pytest.mark.parametrize(
    "query", ["", "after=", "after=xyz&seconds=5", f"after={'0' * 64}", f"after={'0' * 64}&seconds=100", "seconds=5"]
)
def test_any_other_query_is_answered_at_once(query: str) -> None:
    asked = requests.parse(f"GET /1/report/node/diagnose?{query} HTTP/1.0\r\n\r\n".encode())
    assert asked == requests.Asked("/1/report/node/diagnose", has_body=True)


def test_who_wants_no_body_waits_for_none() -> None:
    asked = requests.parse(f"HEAD /1/report/node/diagnose?after={'0' * 64}&seconds=50 HTTP/1.0\r\n\r\n".encode())
    assert (asked.after, asked.seconds) == ("", 0.0)
