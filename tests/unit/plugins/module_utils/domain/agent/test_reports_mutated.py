from __future__ import annotations

import json

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis, reports, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from hypothesis import example, given
from hypothesis import strategies as st

from tests import thoroughness

CLUSTER_KEY = b"0123456789abcdef0123456789abcdef01234567\n"
NODE = "5c8f1c4e-6d54-4bd5-a25b-0f0c0f6f8a11"
OTHER = "b7a0a8f2-0f3e-4a52-9d2c-1c1b7fd6e522"
NOW = 1_795_212_000
STAMP = NOW * 10**9 + 42
DATA = '{"status": "live-repair", "command": "fan", "details": {"n": 1.50, "of": 12345678901234567890}}'
MESSAGE = reports.message(node_uuid=NODE, timestamp_ns=STAMP, data=DATA, problem=None)
VALID = signing.sign(MESSAGE, key=signing.node_key(CLUSTER_KEY, NODE), now=NOW).encode()
BYTE = st.integers(0, 255).map(lambda number: bytes([number]))
PLACE = st.integers(0, len(VALID))
FIELD = st.sampled_from(["msg", "salt", "hmac"])


def _edited(place: int, piece: bytes, dropped: int) -> bytes:
    return VALID[:place] + piece + VALID[place + dropped :]


def _rewritten(field: str, text: str) -> bytes:
    return json.dumps(dict(json.loads(VALID), **{field: text})).encode()


def _spliced(field: str, place: int, text: str) -> bytes:
    old = json.loads(VALID)[field]
    return _rewritten(field, old[: place % (len(old) + 1)] + text + old[place % (len(old) + 1) + 1 :])


def _renamed(field: str, name: str) -> bytes:
    fields = json.loads(VALID)
    fields[name] = fields.pop(field)
    return json.dumps(fields).encode()


def _shifted(count: int) -> bytes:
    fields = json.loads(VALID)
    joined, split = fields["salt"] + fields["msg"], count % 20
    return json.dumps({"salt": joined[:split], "msg": joined[split:], "hmac": fields["hmac"]}).encode()


MUTATIONS = st.one_of(
    st.builds(_edited, PLACE, st.just(b"") | BYTE | st.binary(max_size=6), st.integers(0, 4)),
    st.builds(lambda place: VALID[:place], PLACE),
    st.builds(_rewritten, FIELD, st.text(max_size=20)),
    st.builds(_spliced, FIELD, PLACE, st.text(alphabet=st.characters(codec="utf-8"), max_size=3)),
    st.builds(_renamed, FIELD, st.text(max_size=5)),
    st.builds(_shifted, PLACE),
    st.binary(max_size=40),
)


@thoroughness.tried(2_000)
@given(MUTATIONS, st.booleans())
@example(VALID, False)
def test_no_mutation_of_a_report_is_accepted_unless_it_says_the_same(data: bytes, accept_cluster_key: bool) -> None:
    try:
        report = reports.accept(
            data,
            now=NOW,
            cluster_key=CLUSTER_KEY,
            nodes=[NODE, OTHER],
            floor=lambda _node: 0,
            accept_cluster_key=accept_cluster_key,
        )
    except errors.ReportRejected as e:
        reports.Reason(e.reason)
        return
    changed, original = json.loads(data), json.loads(VALID)
    assert changed["salt"] + changed["msg"] == original["salt"] + original["msg"]
    assert report == reports.Report(NODE, STAMP, diagnosis.parse(DATA), None)
