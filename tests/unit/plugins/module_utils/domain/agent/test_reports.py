from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import (
    collected,
    diagnosis,
    reports,
    signing,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.diagnosis import Status
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.reports import Problem, Report
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Connection, Disk, Role
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

CLUSTER_KEY = b"0123456789abcdef0123456789abcdef01234567\n"
NODE = "5c8f1c4e-6d54-4bd5-a25b-0f0c0f6f8a11"
OTHER = "b7a0a8f2-0f3e-4a52-9d2c-1c1b7fd6e522"
NOW = 1_795_212_000
STAMP = NOW * 10**9 + 42
DATA = '{"status": "live-repair", "command": "fan", "details": {"n": 1.50, "of": 12345678901234567890}}'
KEY = signing.node_key(CLUSTER_KEY, NODE)
OTHER_KEY = signing.node_key(CLUSTER_KEY, OTHER)


def message(*, data: str | None = DATA, problem: Problem | None = None, stamp: int = STAMP, node: str = NODE) -> str:
    return reports.message(node_uuid=node, timestamp_ns=stamp, data=data, problem=problem)


def signed(msg: str, *, key: bytes = KEY, now: int = NOW) -> bytes:
    return signing.sign(msg, key=key, now=now).encode()


def in_cluster_form(msg: str) -> bytes:
    digest = hmac.new(CLUSTER_KEY, (str(NOW) + msg).encode(), hashlib.sha1).hexdigest()
    return json.dumps({"msg": msg, "salt": str(NOW), "hmac": digest}).encode()


def accept(data: bytes, *, floor: int = 0, now: int = NOW, accept_cluster_key: bool = False) -> Report:
    return reports.accept(
        data,
        now=now,
        cluster_key=CLUSTER_KEY,
        nodes=[NODE, OTHER],
        floor=lambda node: floor if node == NODE else 0,
        accept_cluster_key=accept_cluster_key,
    )


def rejection(data: bytes, **options: Any) -> str:
    with pytest.raises(errors.ReportRejected) as caught:
        accept(data, **options)
    return caught.value.reason


def changed(**fields: Any) -> bytes:
    content = dict(json.loads(message()), **fields)
    return signed(json.dumps({name: value for name, value in content.items() if value is not ...}))


def test_a_message_has_the_keys_of_ganetis_monitoring_and_the_node() -> None:
    assert json.loads(message(data='{"status":"Ok"}')) == {
        "name": "diagnose",
        "version": "B",
        "format_version": 1,
        "timestamp": STAMP,
        "category": "node",
        "kind": 1,
        "node": NODE,
        "data": {"status": "Ok"},
    }


def test_the_data_is_embedded_verbatim() -> None:
    assert DATA in message()


@pytest.mark.parametrize(("data", "problem"), [(None, None), (DATA, Problem("exit", ""))])
def test_a_message_holds_exactly_one_of_data_and_problem(data: str | None, problem: Problem | None) -> None:
    with pytest.raises(errors.InvalidInput):
        message(data=data, problem=problem)


def test_a_valid_report_is_accepted_with_its_diagnosis_exactly() -> None:
    report = accept(signed(message()))
    assert report == Report(NODE, STAMP, diagnosis=diagnosis.parse(DATA), problem=None)
    assert report.diagnosis is not None
    assert report.diagnosis.details == '{"n":1.50,"of":12345678901234567890}'


def test_a_problem_is_accepted_as_a_problem_and_never_as_a_diagnosis() -> None:
    problem = Problem("timeout", "not done after 60 s")
    assert accept(signed(message(data=None, problem=problem))) == Report(NODE, STAMP, None, problem)


def test_a_report_of_a_known_node_without_a_valid_signature_is_forged() -> None:
    assert rejection(signed(message(), key=b"guessed")) == "forged"
    assert rejection(signed(message(), key=CLUSTER_KEY)) == "forged"


def test_a_changed_message_under_an_old_signature_is_forged() -> None:
    assert rejection(signed(message()).replace(b"live-repair", b"evacuate")) == "forged"


def test_a_wrong_signature_is_judged_before_the_age_and_the_content() -> None:
    content = json.loads(message())
    content["data"] = "garbage"
    assert rejection(signed(json.dumps(content), key=b"guessed", now=0)) == "forged"


@pytest.mark.parametrize(("seconds", "reason"), [(-301, "stale"), (301, "future"), (86400, "future")])
def test_a_report_signed_more_than_five_minutes_from_now_is_stale_or_from_the_future(seconds: int, reason: str) -> None:
    assert rejection(signed(message(), now=NOW + seconds)) == reason


@pytest.mark.parametrize(("seconds", "reason"), [(-301, "stale"), (301, "future"), (86400, "future")])
def test_a_report_made_more_than_five_minutes_from_now_is_stale_or_from_the_future(seconds: int, reason: str) -> None:
    assert rejection(signed(message(stamp=STAMP + seconds * 10**9))) == reason


def test_only_an_authentic_report_is_refused_in_the_name_of_its_node() -> None:
    def refused(data: bytes) -> str:
        with pytest.raises(errors.ReportRejected) as caught:
            accept(data)
        return caught.value.node

    assert refused(signed(message(), now=NOW + 301)) == NODE
    assert refused(signed(message(), now=NOW - 301)) == NODE
    assert refused(signed(message(), now=NOW + 301, key=b"guessed")) == ""


@pytest.mark.parametrize("seconds", [-300, 300])
def test_a_report_of_five_minutes_is_not_stale(seconds: int) -> None:
    stamp = (NOW + seconds) * 10**9
    assert accept(signed(message(stamp=stamp), now=NOW + seconds)).timestamp == stamp


def test_a_report_that_is_not_newer_than_the_last_is_replayed() -> None:
    assert rejection(signed(message()), floor=STAMP) == "replayed"
    assert rejection(signed(message()), floor=STAMP + 1) == "replayed"
    assert accept(signed(message()), floor=STAMP - 1).timestamp == STAMP


@pytest.mark.parametrize("command", ["5", '["x"]', '""', "{}", "true"])
def test_an_ill_typed_command_of_a_live_repair_is_a_collector_problem(command: str) -> None:
    said = message(data='{"status": "live-repair", "command": ' + command + "}")
    report = accept(signed(said))
    assert report.diagnosis is None
    assert report.problem is not None
    assert report.problem.reason == "bad_command"


@pytest.mark.parametrize("text", ['{"status": "live-repair"}', '{"status": "live-repair", "command": null}'])
def test_a_live_repair_without_a_command_is_a_diagnosis(text: str) -> None:
    assert accept(signed(message(data=text))).diagnosis is not None
    assert accept(signed(message(data='{"status": "evacuate", "command": 5}'))).diagnosis is not None


def test_an_unsigned_report_is_rejected_as_such() -> None:
    fields = json.loads(signed(message()))
    for missing in ("hmac", "salt"):
        assert rejection(json.dumps(dict(fields, **{missing: ""})).encode()) == "unsigned"
    assert rejection(message().encode()) == "unsigned"


def test_a_node_cannot_speak_for_another() -> None:
    assert rejection(signed(message(), key=OTHER_KEY)) == "wrong-node"


def test_a_large_message_buys_no_hashes_with_other_nodes_keys() -> None:
    large = message(data='{"status":"Ok","details":"' + "x" * 70_000 + '"}')
    assert rejection(signed(large, key=OTHER_KEY)) == "forged"


def test_a_node_that_is_not_in_the_cluster_is_wrong_even_with_its_own_valid_key() -> None:
    stranger = "00000000-0000-0000-0000-000000000000"
    report = signed(message(node=stranger), key=signing.node_key(CLUSTER_KEY, stranger))
    assert rejection(report) == "wrong-node"


def test_a_report_of_more_than_a_mebibyte_is_oversized_and_one_of_exactly_that_is_not() -> None:
    padding = reports.LIMIT - len(signed(message()))
    assert rejection(signed(message()) + b" " * (padding + 1)) == "oversized"
    assert accept(signed(message()) + b" " * padding).node == NODE


@pytest.mark.parametrize("data", [b"", b"Ok", b"\x00", b"\xff\xfe", b"[]", b"{}x", b"[" * 10**6])
def test_what_is_no_json_object_is_malformed(data: bytes) -> None:
    assert rejection(data) == "malformed"


@pytest.mark.parametrize(
    "msg", ["", "Ok", "[]", "null", '{"node": 1}', '{"node": ""}', '{"name": "diagnose"}', "[" * 999]
)
def test_a_message_that_names_no_node_is_malformed(msg: str) -> None:
    assert rejection(signed(msg)) == "malformed"


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "cpu-avg-load"},
        {"category": None},
        {"format_version": 2},
        {"format_version": True},
        {"kind": 0},
        {"timestamp": ...},
        {"timestamp": str(STAMP)},
        {"timestamp": float(STAMP)},
        {"timestamp": -STAMP},
        {"timestamp": 10**30},
        {"data": ...},
        {"problem": {"reason": "exit", "text": ""}},
        {"data": None},
        {"data": "Ok"},
        {"data": []},
        {"data": {}},
        {"data": {"status": "ok"}},
        {"data": {"status": "fine", "details": "garbage"}},
        {"data": {"status": {"code": 0, "message": ""}}},
        {"data": ..., "problem": {}},
        {"data": ..., "problem": "exit"},
        {"data": ..., "problem": {"reason": "", "text": ""}},
        {"data": ..., "problem": {"reason": "exit", "text": 3}},
    ],
    ids=str,
)
def test_an_authentic_report_without_a_valid_content_is_malformed_and_never_ok(
    fields: dict[str, Any],
) -> None:
    assert rejection(changed(**fields)) == "malformed"


def test_a_diagnosis_as_deep_as_a_node_may_say_it_is_accepted() -> None:
    deepest = '{"status":"Ok","details":' + "[" * 99 + "]" * 99 + "}"
    assert accept(signed(message(data=diagnosis.parse(deepest).original))).diagnosis == diagnosis.parse(deepest)


def test_confds_form_counts_only_where_it_is_admitted() -> None:
    assert rejection(in_cluster_form(message())) == "forged"
    assert accept(in_cluster_form(message()), accept_cluster_key=True).node == NODE
    assert accept(signed(message()), accept_cluster_key=True).node == NODE


def test_confds_form_frees_from_no_other_rule() -> None:
    assert rejection(in_cluster_form(message()), accept_cluster_key=True, floor=STAMP) == "replayed"
    assert rejection(in_cluster_form(message()), accept_cluster_key=True, now=NOW + 301) == "stale"
    assert rejection(in_cluster_form(message(node="stranger")), accept_cluster_key=True) == "wrong-node"
    assert rejection(in_cluster_form(message()).replace(b"1.50", b"1.51"), accept_cluster_key=True) == "forged"


def test_an_accepted_file_is_read_again_at_any_age() -> None:
    assert reports.read(signed(message(), now=1), cluster_key=CLUSTER_KEY).timestamp == STAMP
    in_sha1 = reports.read(in_cluster_form(message()), cluster_key=CLUSTER_KEY, accept_cluster_key=True)
    assert in_sha1.diagnosis == diagnosis.parse(DATA)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (signed(message(), key=OTHER_KEY), "forged"),
        (in_cluster_form(message()), "forged"),
        (signed(message())[:-20], "malformed"),
        (changed(data={"status": "fine"}), "malformed"),
    ],
)
def test_a_damaged_or_forged_file_is_not_read_again(data: bytes, expected: str) -> None:
    with pytest.raises(errors.ReportRejected) as caught:
        reports.read(data, cluster_key=CLUSTER_KEY)
    assert caught.value.reason == expected


@pytest.mark.parametrize(
    ("ended", "reason", "text"),
    [
        (
            {"returncode": 3, "stdout": b'{"status":"Ok"}', "stderr": b"bad disk\n"},
            "exit",
            "exit code 3: bad disk",
        ),
        ({"returncode": -9, "stdout": b'{"status":"Ok"}', "stderr": b""}, "killed", "killed by signal 9"),
        ({"returncode": 0, "stdout": b"all fine", "stderr": b""}, "not_json", None),
        ({"returncode": 0, "stdout": b"", "stderr": b""}, "not_json", None),
        ({"returncode": 0, "stdout": b'"\xff"', "stderr": b""}, "not_json", None),
        ({"returncode": 0, "stdout": b'{"status":"fine"}', "stderr": b""}, "unknown_status", None),
        ({"returncode": 0, "stdout": b"[]", "stderr": b""}, "unknown_status", None),
    ],
)
def test_a_command_that_gave_no_diagnosis_is_a_problem(ended: dict[str, Any], reason: str, text: str | None) -> None:
    said = reports.outcome(**ended)
    assert isinstance(said, Problem)
    assert said.reason == reason
    assert said.text == (said.text if text is None else text)


def test_a_command_that_gave_a_diagnosis_is_that_diagnosis() -> None:
    said = reports.outcome(returncode=0, stdout=DATA.encode() + b"\n", stderr=b"warning")
    assert said == diagnosis.parse(DATA)


def test_a_problems_text_is_the_end_of_what_was_said_and_fits_into_a_report() -> None:
    said = reports.outcome(returncode=1, stdout=b"", stderr=b"start" + b"\xff" * 9000 + b"the end")
    assert isinstance(said, Problem)
    assert len(said.text) <= 500
    assert said.text.startswith("exit code 1: ")
    assert said.text.endswith("the end")
    sent = reports.seal(reports.problem("x", text="\udcff"), node_uuid=NODE, timestamp_ns=STAMP, key=KEY)
    assert accept(sent.envelope.encode()).problem == Problem("x", "?")


def test_a_diagnosis_that_would_be_oversized_is_sent_as_a_problem() -> None:
    large = diagnosis.parse('{"status":"Ok","details":"' + '\\"' * 400_000 + '"}')
    sent = reports.seal(large, node_uuid=NODE, timestamp_ns=STAMP, key=KEY)
    problem = accept(sent.envelope.encode()).problem
    assert problem == sent.said
    assert problem is not None
    assert problem.reason == "oversized"


def test_every_outcome_in_an_envelope_is_accepted_as_itself() -> None:
    for status in Status:
        said = diagnosis.parse(json.dumps({"status": status.value, "command": "fan"}))
        sent = reports.seal(said, node_uuid=NODE, timestamp_ns=STAMP, key=KEY)
        assert accept(sent.envelope.encode()) == Report(NODE, STAMP, said, None)


FACT = replicas.ReplicaFact("r0", 0, Role.PRIMARY, Connection.CONNECTED, Disk.UP_TO_DATE, Disk.UP_TO_DATE, 16, 0)
FACTS = replicas.NodeFacts("0f2a4b6c-1111-2222-3333-444455556666", (FACT,))


@pytest.mark.parametrize("said", [diagnosis.parse(DATA), Problem("timeout", "60 s")])
def test_facts_travel_inside_the_signature_beside_a_diagnosis_and_beside_a_problem(said: reports.Outcome) -> None:
    sent = reports.seal(said, node_uuid=NODE, timestamp_ns=STAMP, key=KEY, facts=FACTS).envelope
    assert accept(sent.encode()).facts == FACTS
    assert rejection(sent.replace("UpToDate", "Outdated", 1).encode()) == "forged"


def test_facts_are_no_part_of_the_incidents_identity() -> None:
    sent = [
        reports.seal(diagnosis.parse(DATA), node_uuid=NODE, timestamp_ns=STAMP, key=KEY, facts=one)
        for one in (FACTS, replicas.UNKNOWN)
    ]
    said = [accept(one.envelope.encode()).diagnosis for one in sent]
    assert said[0] == said[1] == diagnosis.parse(DATA)


def test_a_report_whose_facts_are_wrong_counts_without_them() -> None:
    report = accept(changed(replicas="all fine", boot_id={"x": []}))
    assert report.facts == replicas.UNKNOWN
    assert report.diagnosis is not None


def test_facts_never_turn_a_large_diagnosis_into_a_problem() -> None:
    many = replicas.NodeFacts("", tuple(dataclasses.replace(FACT, volume=number) for number in range(replicas.MOST)))
    large = diagnosis.parse('{"status":"Ok","details":"' + "x" * 950_000 + '"}')
    sent = reports.seal(large, node_uuid=NODE, timestamp_ns=STAMP, key=KEY, facts=many)
    report = accept(sent.envelope.encode())
    assert (report.diagnosis, report.facts) == (large, replicas.UNKNOWN)


def with_sight(
    *, connection: Connection = Connection.CONNECTED, age: float = 1.0, stamp: int = STAMP, differ: int | None = None
) -> bytes:
    fact = replicas.ReplicaFact(
        "r0", 0, Role.PRIMARY, connection, Disk.UP_TO_DATE, Disk.UP_TO_DATE, 16, 0, (("192.0.2.1", age),), differ
    )
    facts = replicas.NodeFacts("", (fact,))
    return signed(reports.message(node_uuid=NODE, timestamp_ns=stamp, data=DATA, problem=None, facts=facts), now=NOW)


def test_the_digest_of_a_report_changes_with_what_it_says_and_not_with_times_and_ages() -> None:
    known = collected.content_digest(with_sight())
    assert len(known) == 64
    assert collected.content_digest(with_sight(age=7.5, stamp=STAMP + 10**10)) == known
    assert collected.content_digest(with_sight(differ=8)) == known
    assert collected.content_digest(with_sight(connection=Connection.CONNECTING)) != known
    assert collected.content_digest(signed(message())) != known
    assert collected.content_digest(signed(message())) != collected.content_digest(signed(message(node=OTHER)))


def test_what_is_no_news_in_a_report_is_none_in_what_is_known_of_a_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    fact = replicas.ReplicaFact("r0", 0, Role.PRIMARY, Connection.CONNECTED, Disk.UP_TO_DATE, Disk.UP_TO_DATE, 16, 0)
    changed: dict[str, Any] = {"seen": (("192.0.2.1", 7.5),), "out_of_sync": 8, "current": 32, "bitmap": 48}
    for not_news in (replicas.NOT_NEWS, (*replicas.NOT_NEWS, "current"), ()):
        monkeypatch.setattr(replicas, "NOT_NEWS", not_news)
        for name, value in changed.items():
            other = dataclasses.replace(fact, **{name: value})
            said = (
                reports.message(
                    node_uuid=NODE, timestamp_ns=STAMP, data=DATA, problem=None, facts=replicas.NodeFacts("", (each,))
                )
                for each in (fact, other)
            )
            one, two = (collected.content_digest(signed(text, now=NOW)) for text in said)
            assert (one == two, fact.news == other.news) == (name in not_news, name in not_news), name


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"[]",
        signed("7"),
        signed("{}"),
        signed('{"timestamp": 1, "replicas": 7}'),
        signed('{"timestamp": 1, "replicas": [7]}'),
        signed('{"timestamp": ' + "9" * 5000 + "}"),
        signed("[" * 100_000),
    ],
)
def test_what_is_no_report_has_no_digest(data: bytes) -> None:
    assert collected.content_digest(data) == ""
