from __future__ import annotations

import pytest
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
