"""The remote API's process, as others meet it."""

from __future__ import annotations

import os
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.remote import users
from ansible_collections.roundsman.cluster.daemon.serving import not_leading

from . import fronts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx
    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree

    from . import labs

SLOW = int(os.environ.get("SLOW_CONNECTIONS", "2000"))
"""How many slow connections are opened; 10000 for the whole promise."""


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> tree.Tree:
    return fronts.prepared(tmp_path_factory.mktemp("root") / ("a-long-path-" * 8))


@pytest.fixture
def daemon(where: tree.Tree) -> Iterator[fronts.StandIn]:
    found = fronts.StandIn(where)
    with found.serving():
        yield found


@pytest.fixture(scope="module")
def front(where: tree.Tree) -> Iterator[fronts.Front]:
    with fronts.front(where) as one:
        yield one


def test_reads_and_writes_are_forwarded_as_they_are_and_answered_as_the_daemon_answers(
    front: fronts.Front, daemon: fronts.StandIn
) -> None:
    with front.client("wim") as client:
        answer = client.put("/2/nodes/a%2Fb%20c/role?force=1&x=%41", content=b'"drained"')
        locked = client.get("/2/locked")
    assert (answer.status_code, answer.json(), answer.headers["x-own"]) == (200, {"number": 1}, "kept")
    assert "x-hop" not in answer.headers
    assert locked.status_code == 423
    asked = daemon.asked[0]
    assert (asked["method"], asked["target"], asked["query"], asked["body"]) == (
        "PUT",
        "/2/nodes/a%2Fb%20c/role",
        "force=1&x=%41",
        b'"drained"',
    )


def test_the_daemon_is_told_who_asks_and_nothing_else_by_which_one_could_pretend(
    front: fronts.Front, daemon: fronts.StandIn
) -> None:
    own = {
        "X-Roundsman-User": "root",
        "X-Forwarded-For": "127.0.0.1",
        "Connection": "x-mine",
        "X-Mine": "1",
        "Host": "elsewhere",
        "Cookie": "a=b",
        "Content-Type": "application/json",
    }
    with front.client("rita") as client:
        client.get("/2/info", headers=own)
    headers = daemon.asked[0]["headers"]
    assert headers["x-roundsman-user"] == "rita"
    assert headers["content-type"] == "application/json"
    assert set(headers) & {"authorization", "x-forwarded-for", "x-mine", "cookie"} == set()
    assert headers["host"] != "elsewhere"


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("", ""),
        ("rita", "wrong"),
        ("nobody", fronts.PASSWORDS["rita"]),
        ("rita", ""),
        ("wim", fronts.PASSWORDS["rita"]),
    ],
)
def test_nobody_is_let_in_without_the_right_password(
    where: tree.Tree, daemon: fronts.StandIn, front: fronts.Front, user: str, password: str
) -> None:
    with front.client(user, password=password, source="127.0.0.9") as client:
        for answer in (client.get("/2/info"), client.put("/2/nodes/a/role", json="drained")):
            fronts.problem(answer)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Basic realm=")
    assert daemon.asked == []


def test_a_reader_reads_and_queries_and_changes_nothing(front: fronts.Front, daemon: fronts.StandIn) -> None:
    with front.client("rita") as client:
        assert client.get("/").status_code == 200
        assert client.put("/2/query/node", json={"fields": ["name"]}).status_code == 200
        refused = [
            client.put("/2/nodes/a/role", json="drained"),
            client.post("/2/groups", json={}),
            client.delete("/2/jobs/1"),
            client.put("/2/query/node/more", json={}),
        ]
    assert [one.status_code for one in refused] == [403] * 4
    assert "rita" in fronts.problem(refused[0])["detail"]
    assert [one["target"] for one in daemon.asked] == ["/", "/2/query/node"]


@pytest.mark.parametrize(
    "target",
    [
        b"/2/hold",
        b"/2/%68old",
        b"/2/x/../hold",
        b"/2/x/%2e%2e/hold",
        b"/2%2Fhold",
        b"/2//hold",
        b"/2/record",
        b"/2/config",
        b"/2/config/history",
        b"/2/",
        b"/1/status",
        b"/ui",
        b"http://roundsmand/2/hold",
    ],
)
def test_what_is_for_the_daemons_own_machine_is_not_forwarded(
    front: fronts.Front, daemon: fronts.StandIn, target: bytes
) -> None:
    with front.client("wim") as client:
        answer = client.send(client.build_request("POST", "/", extensions={"target": target}))
    assert (answer.status_code, daemon.asked) == (404, [])


def test_a_long_poll_is_answered_when_something_changes(front: fronts.Front, daemon: fronts.StandIn) -> None:
    found: list[httpx.Response] = []

    def ask() -> None:
        with front.client("rita") as client:
            found.append(client.get("/2/jobs/1/wait"))

    thread = threading.Thread(target=ask)
    thread.start()
    assert daemon.waits.wait(60)
    assert found == []
    daemon.changed.set()
    thread.join()
    assert found[0].status_code == 200


def test_who_goes_away_does_not_leave_his_request_with_the_daemon(front: fronts.Front, daemon: fronts.StandIn) -> None:
    trusted = ssl.create_default_context(cafile=str(front.where.rapi_certificate))
    line = f"GET /2/jobs/1/wait?forever HTTP/1.1\r\nHost: x\r\nAuthorization: {_basic('rita')}\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", front.port)) as plain,
        trusted.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(line.encode())
        assert daemon.waits.wait(60)
    assert daemon.left.wait(60)


def _basic(user: str) -> str:
    return fronts.basic(user, fronts.PASSWORDS[user])


def test_plain_http_is_refused_and_others_are_answered(front: fronts.Front, daemon: fronts.StandIn) -> None:
    with socket.create_connection(("127.0.0.1", front.port)) as plain:
        plain.sendall(f"GET /2/info HTTP/1.1\r\nHost: x\r\nAuthorization: {_basic('rita')}\r\n\r\n".encode())
        assert b"HTTP" not in _until_closed(plain)
    with front.client("rita") as client:
        assert client.get("/2/info").status_code == 200
    assert len(daemon.asked) == 1


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_body_of_ten_megabytes_is_refused_before_the_daemon_hears_of_it(
    front: fronts.Front, daemon: fronts.StandIn, is_announced: bool
) -> None:
    body = b"x" * 10_000_000
    pieces = (body[start : start + 65536] for start in range(0, len(body), 65536))
    with front.client("wim") as client:
        answer = client.put("/2/nodes/a/role", content=body if is_announced else pieces)
        assert answer.status_code == 413
        assert "1048576" in fronts.problem(answer)["detail"]
        assert client.put("/2/nodes/a/role", content=body[: 1 << 20]).status_code == 200
    assert [len(one["body"]) for one in daemon.asked] == [1 << 20]


def test_without_a_daemon_there_is_an_answer_and_the_next_daemon_is_found(front: fronts.Front) -> None:
    with front.client("rita") as client:
        for _ in range(2):
            answer = client.get("/2/info")
            assert (answer.status_code, "is it running" in fronts.problem(answer)["detail"]) == (503, True)
            with fronts.StandIn(front.where).serving():
                assert client.get("/2/info").status_code == 200


def _until_closed(connection: socket.socket) -> bytes:
    connection.settimeout(120)
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


@pytest.mark.usefixtures("daemon")
def test_slow_connections_are_bounded_and_cut_and_others_are_answered_meanwhile(where: tree.Tree) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, SLOW + 1000), hard))
    slow: list[socket.socket] = []
    try:
        with fronts.front(where, "--connections", "40", "--connections-of-one", "20", "--patience", "3") as one:
            before, most = one.descriptors(), 0
            with one.client("rita", source="127.0.0.2") as other:
                assert other.get("/2/info").status_code == 200
                for number in range(SLOW):
                    slow.append(socket.create_connection(("127.0.0.1", one.port)))
                    slow[-1].sendall(b"\x16")
                    if number % 200 == 0:
                        most = max(most, one.descriptors())
                        assert other.get("/2/info").status_code == 200
            assert most <= before + 40 + 10
            assert one.memory() < 300 << 20
            assert b"".join(_until_closed(each) for each in slow) == b""
            with one.client("rita") as again:
                assert again.get("/2/info").status_code == 200
            assert "over the limit" in one.log.read_text()
    finally:
        for each in slow:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("daemon")
def test_who_guesses_passwords_locks_nobody_out(front: fronts.Front) -> None:
    with front.client("rita", source="127.0.0.5") as known, front.client("wim", source="127.0.0.6") as other:
        assert known.get("/2/info").status_code == 200
        for number in range(10):
            with front.client("wim", password=f"guess {number}", source="127.0.0.5") as guesser:
                assert guesser.get("/2/info").status_code == 401
        with front.client("wim", source="127.0.0.5") as right:
            assert right.get("/2/info").status_code == 200
        assert (known.get("/2/info").status_code, other.get("/2/info").status_code) == (200, 200)


@pytest.mark.usefixtures("daemon")
def test_users_change_while_the_front_runs_and_a_damaged_file_lets_nobody_in(
    front: fronts.Front, where: tree.Tree
) -> None:
    with front.client("eve", password="new here", source="127.0.0.7") as client:
        assert client.get("/2/info").status_code == 401
        users.add(where.rapi_users, "eve", password="new here", access=users.Access.READ)
        assert client.get("/2/info").status_code == 200
        right = where.rapi_users.read_bytes()
        where.rapi_users.write_bytes(right.replace(b'"read"', b'"write"'))
        assert client.get("/2/info").status_code == 401
        assert f"everybody is refused: {where.rapi_users} is damaged" in front.log.read_text()
        where.rapi_users.write_bytes(right)
        assert client.get("/2/info").status_code == 200
        users.remove(where.rapi_users, "eve")
        assert client.get("/2/info").status_code == 401


def test_the_front_refuses_to_start_on_a_secret_that_others_can_read(tmp_path: Path) -> None:
    where = fronts.prepared(tmp_path)
    where.rapi_certificate.chmod(0o444)
    command = [sys.executable, "-m", fronts.MODULE, "--root", str(tmp_path), "--port", "0"]
    done = subprocess.run(
        [*command, "--log-file", str(tmp_path / "log")], capture_output=True, text=True, timeout=60, check=False
    )
    told = (tmp_path / "log").read_text()
    assert (done.returncode, f"{where.rapi_certificate} has the mode 0444" in told) == (1, True)


def test_the_front_warns_when_it_can_read_what_is_the_daemons(tmp_path: Path) -> None:
    where = fronts.prepared(tmp_path)
    where.hmac_key.write_text("key")
    with fronts.front(where) as one:
        told = one.log.read_text()
    assert (f"{where.hmac_key} can be read" in told, str(where.config) in told) == (True, False)


def test_a_lab_is_read_and_changed_through_the_front(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, instances=3)
    where = fronts.prepared(one.where.root)
    with fronts.front(where) as front, front.client("wim") as client, front.client("rita") as reader:
        assert [each["id"] for each in reader.get("/2/nodes").json()] == ["node1", "node2", "node3"]
        assert reader.put("/2/tags?tag=x").status_code == 403
        job = client.put("/2/tags?tag=front").json()
        one.until(lambda _: client.get(f"/2/jobs/{job}").json()["status"] == "success", "the tag is there")
        told = reader.get(f"/2/jobs/{job}").json()
        assert reader.get("/2/tags").json() == ["front"]
    assert ["gnt:client:rapi", "wim"] in [each[:2] for each in told["ops"][0]["reason"]]


def test_it_does_not_start_where_another_controller_leads(tmp_path: Path) -> None:
    where = fronts.prepared(tmp_path / "own")
    not_leading.note(where, "node1 follows epoch 5 (theirs)")
    command = [sys.executable, "-m", fronts.MODULE, "--root", str(where.root), "--bind", "127.0.0.1", "--port", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 11
    assert "roundsmand has ended here: node1 follows epoch 5 (theirs)" in done.stderr


def test_it_ends_once_another_controller_leads_and_waits_for_a_daemon_that_only_does_not_answer(tmp_path: Path) -> None:
    where = fronts.prepared(tmp_path / "own")
    with fronts.front(where, ends_with=11) as one:
        with one.client("rita") as client:
            assert client.get("/2/info").status_code == 503
        time.sleep(3)
        assert one.process.poll() is None
        not_leading.note(where, "node1 follows epoch 5 (theirs)")
        one.process.wait(timeout=60)
    assert "node1 follows epoch 5 (theirs)" in one.log.read_text()
