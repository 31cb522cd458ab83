from __future__ import annotations

import hashlib
import hmac
import json

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

CLUSTER_KEY = b"0123456789abcdef0123456789abcdef01234567\n"
NODE = "5c8f1c4e-6d54-4bd5-a25b-0f0c0f6f8a11"
KEY = signing.node_key(CLUSTER_KEY, NODE)
NOW = 1_795_212_000

CONFD_MESSAGE = (
    '{"protocol": 1, "query": "node1.example.com", "rsalt": "9aa6ce92-8336-11de-af38-001d093e835f", "type": 1}\n'
)

# Recorded from Ganeti's own serializer.
GANETI_KEY = b"b392c895b13aefc6fdce3013d0a1c9536b41ff55\n"
GANETI_ENVELOPE = signing.Envelope(
    msg='{"status": "live-repair", "command": "disk-check", "details": {"disk": "sda", "slot": 3}}\n',
    salt="1795212000",
    hmac="5ed038dd3e9d4e5d303de88e5c83c1064bcbdba3",
)


def reason(data: bytes) -> str:
    with pytest.raises(errors.ReportRejected) as caught:
        signing.read_envelope(data)
    return caught.value.reason


def judged(envelope: signing.Envelope, *, now: int = NOW, key: bytes = KEY) -> str:
    try:
        signing.verify(envelope, key=key, now=now)
    except errors.ReportRejected as e:
        return e.reason
    return "accepted"


def judged_in_cluster_form(envelope: signing.Envelope, *, now: int, key: bytes = CLUSTER_KEY) -> str:
    if not signing.is_signed_in_cluster_form(envelope, cluster_key=key):
        return "forged"
    try:
        signing.check_fresh(envelope, now=now)
    except errors.ReportRejected as e:
        return e.reason
    return "accepted"


def salted(salt: str, *, msg: str = "{}") -> signing.Envelope:
    digest = hmac.new(KEY, (salt + msg).encode(), hashlib.sha256).hexdigest()
    return signing.Envelope(msg=msg, salt=salt, hmac=digest)


def test_a_nodes_key_is_the_hex_of_hmac_sha256_over_its_name_with_the_whole_cluster_key() -> None:
    expected = hmac.new(CLUSTER_KEY, b"roundsman/node/" + NODE.encode(), hashlib.sha256).hexdigest()
    assert signing.node_key(CLUSTER_KEY, NODE) == expected.encode()
    assert signing.node_key(CLUSTER_KEY.rstrip(), NODE) != signing.node_key(CLUSTER_KEY, NODE)


def test_an_empty_cluster_key_makes_no_keys() -> None:
    with pytest.raises(errors.InvalidInput):
        signing.node_key(b"", NODE)
    with pytest.raises(errors.InvalidInput):
        signing.pair_secret(b"", NODE, ("node1", "node2"))


def test_each_pair_of_each_instance_has_a_secret_of_its_own_whichever_node_is_named_first() -> None:
    pairs = [("node1", "node2"), ("node1", "node3"), ("node2", "node3")]
    secrets = [signing.pair_secret(CLUSTER_KEY, instance, pair) for instance in ("a", "b") for pair in pairs]
    assert len(set(secrets)) == len(secrets)
    turned = [signing.pair_secret(CLUSTER_KEY, instance, (b, a)) for instance in ("a", "b") for a, b in pairs]
    assert turned == secrets
    assert all(len(secret) == 60 and set(secret) <= set("0123456789abcdef") for secret in secrets)
    assert signing.pair_secret(CLUSTER_KEY.rstrip(), "a", pairs[0]) != secrets[0]


def test_what_is_signed_is_read_and_verified() -> None:
    envelope = signing.read_envelope(signing.sign('{"é": 1}\n', key=KEY, now=NOW).encode())
    assert (envelope.msg, envelope.salt) == ('{"é": 1}\n', str(NOW))
    assert envelope.hmac == hmac.new(KEY, f'{NOW}{{"é": 1}}\n'.encode(), hashlib.sha256).hexdigest()
    assert judged(envelope) == "accepted"


def test_an_envelope_is_exactly_three_strings() -> None:
    fields = json.loads(signing.sign("{}", key=KEY, now=NOW))
    assert {name: type(value) for name, value in fields.items()} == {"msg": str, "salt": str, "hmac": str}


def test_a_text_without_a_utf8_form_is_not_signed() -> None:
    with pytest.raises(errors.InvalidInput):
        signing.sign("\ud800", key=KEY, now=NOW)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"msg": "{}", "salt": "1"}', "unsigned"),
        (b'{"msg": "{}", "hmac": "1"}', "unsigned"),
        (b'{"msg": "{}", "salt": "1", "hmac": ""}', "unsigned"),
        (b'{"msg": "{}", "salt": "", "hmac": "1"}', "unsigned"),
        (b'{"name": "diagnose", "data": {"status": "Ok"}}', "unsigned"),
        (b'{"salt": "1", "hmac": "1"}', "malformed"),
        (b'{"msg": {}, "salt": "1", "hmac": "1"}', "malformed"),
        (b'{"msg": "{}", "salt": 1, "hmac": "1"}', "malformed"),
        (b'{"msg": "{}", "salt": "1", "hmac": null}', "malformed"),
        (b'{"msg": "{}", "salt": "1", "hmac": "1", "key_selector": ""}', "malformed"),
        (b'{"msg": "{}", "msg": "[]", "salt": "1", "hmac": "1"}', "malformed"),
        (b'{"msg": "\\ud800", "salt": "1", "hmac": "1"}', "malformed"),
        (b'plj0{"msg": "{}", "salt": "1", "hmac": "1"}', "malformed"),
        (b'\xff{"msg": "{}", "salt": "1", "hmac": "1"}', "malformed"),
        (b"[]", "malformed"),
        (b"", "malformed"),
        (b"[" * 200_000, "malformed"),
    ],
    ids=lambda value: str(value[:40]),
)
def test_an_envelope_that_is_not_exactly_that_is_rejected_by_name(data: bytes, expected: str) -> None:
    assert reason(data) == expected


@pytest.mark.parametrize(
    ("salt", "expected"),
    [
        (str(NOW - 300), "accepted"),
        (str(NOW + 300), "accepted"),
        ("00" + str(NOW), "accepted"),
        (str(NOW - 301), "stale"),
        (str(NOW + 301), "future"),
        ("000" + str(NOW), "stale"),
        ("9" * 10_000, "stale"),
        ("-" + str(NOW), "malformed"),
        ("+" + str(NOW), "malformed"),
        (" " + str(NOW), "malformed"),
        (str(NOW) + "\n", "malformed"),
        (str(NOW) + ".0", "malformed"),
        ("1_795_212_000", "malformed"),
        ("\u0661" * 10, "malformed"),
        ("9aa6ce92-8336-11de-af38-001d093e835f", "malformed"),
    ],
)
def test_a_salt_is_a_plain_time_within_five_minutes(salt: str, expected: str) -> None:
    assert judged(salted(salt)) == expected


@pytest.mark.parametrize(
    "envelope",
    [
        signing.Envelope("{}", str(NOW), "0" * 64),
        signing.Envelope("{}", str(NOW - 999), "0" * 64),
        signing.Envelope("{}", "no time", ""),
        signing.Envelope("{}", str(NOW), "\u00e9"),
        signing.Envelope("{} ", str(NOW), salted(str(NOW)).hmac),
        signing.Envelope("{}", str(NOW + 1), salted(str(NOW)).hmac),
        signing.Envelope("{}", str(NOW), salted(str(NOW)).hmac.upper()),
        signing.Envelope("{}", str(NOW), salted(str(NOW)).hmac[:-1]),
    ],
)
def test_a_wrong_signature_is_forged_whatever_else_is_wrong(envelope: signing.Envelope) -> None:
    assert judged(envelope) == "forged"


def test_another_nodes_key_and_the_cluster_key_itself_sign_nothing_for_this_node() -> None:
    for key in (signing.node_key(CLUSTER_KEY, "another"), CLUSTER_KEY):
        forged = signing.read_envelope(signing.sign("{}", key=key, now=NOW).encode())
        assert judged(forged) == "forged"


@pytest.mark.parametrize(
    ("salt", "msg", "digest"),
    [
        (
            "1249637704",
            CONFD_MESSAGE,
            "f4cc40a30289d132b6c01c87916e22405887d012",
        ),
        ("1700000000", '{"status": "Ok", "details": "é"}\n', "cf7a5e5d460087d7b445ce91414611a3a3cb5cf4"),
    ],
)
def test_confds_form_is_verified_with_the_whole_key(salt: str, msg: str, digest: str) -> None:
    envelope = signing.Envelope(msg=msg, salt=salt, hmac=digest)
    assert judged_in_cluster_form(envelope, now=int(salt)) == "accepted"
    assert judged_in_cluster_form(envelope, now=int(salt) + 301) == "stale"
    assert judged_in_cluster_form(envelope, now=int(salt), key=CLUSTER_KEY.rstrip()) == "forged"


def test_the_digest_of_a_stripped_key_is_forged() -> None:
    wrong = signing.Envelope(msg=CONFD_MESSAGE, salt="1249637704", hmac="9489e02dc647a2e40af1779e8455560a4dab5984")
    assert judged_in_cluster_form(wrong, now=1_249_637_704) == "forged"


def test_a_confd_reply_is_authentic_but_no_report_since_its_salt_is_no_time() -> None:
    reply = signing.Envelope(
        msg='{"protocol":1,"status":0,"answer":0,"serial":42}',
        salt="9aa6ce92-8336-11de-af38-001d093e835f",
        hmac="4499c665cddc8c810883265ce68386f80e9593ed",
    )
    assert judged_in_cluster_form(reply, now=NOW) == "malformed"


def test_what_ganetis_own_serializer_signed_is_verified() -> None:
    recorded = json.dumps(vars(GANETI_ENVELOPE)).encode() + b"\n"
    assert judged_in_cluster_form(signing.read_envelope(recorded), now=NOW, key=GANETI_KEY) == "accepted"


def test_a_recorded_confd_request_is_verified() -> None:
    request = signing.Envelope(
        msg='{"protocol": 1, "type": 0, "query": null, "rsalt": "01234567-89ab-cdef-0123--456789abcdef"}\n',
        salt="1795210994",
        hmac="568c176c97633db25336972d2216489f385d4cfe",
    )
    key = b"30ce5b082a7c2ba1fa46fc150aaa776f5091beae\n"
    assert judged_in_cluster_form(request, now=1_795_210_994, key=key) == "accepted"
