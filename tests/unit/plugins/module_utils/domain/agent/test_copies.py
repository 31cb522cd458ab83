from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import copies, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

CLUSTER_KEY = b"0123456789abcdef0123456789abcdef01234567\n"
NODE = "5c8f1c4e-6d54-4bd5-a25b-0f0c0f6f8a11"
KEY = signing.node_key(CLUSTER_KEY, NODE)
STAMP = copies.Stamp(3, 41, 1_700_000_000)
CONFIGURATION = b'{"serial_no": 41, "text": "' + b"x" * 5000 + b'"}'
COPY = copies.sealed(CONFIGURATION, STAMP, cluster_key=CLUSTER_KEY)


def part(**other: object) -> copies.Part:
    made = copies.Part(NODE, "nonce", Epoch(3, "id3"), STAMP, copies.digest(COPY), len(COPY), 10, COPY[10:40])
    return dataclasses.replace(made, **other)  # type: ignore[arg-type]


def test_a_copy_is_opened_with_the_key_of_the_cluster_that_sealed_it() -> None:
    assert copies.is_copy(COPY)
    assert not copies.is_copy(CONFIGURATION)
    assert copies.stamp_of(COPY) == STAMP
    assert copies.opened(COPY, cluster_key=CLUSTER_KEY) == (CONFIGURATION, STAMP)
    assert len(COPY) < len(CONFIGURATION) / 2


def test_what_a_node_can_make_from_its_own_key_is_no_copy() -> None:
    for key in (KEY, KEY + b"\n", b"another"):
        forged = copies.sealed(CONFIGURATION, STAMP, cluster_key=key)
        with pytest.raises(errors.InvalidInput, match="its seal is not of this cluster's key"):
            copies.opened(forged, cluster_key=CLUSTER_KEY)


def test_no_byte_of_a_copy_can_be_changed_nor_its_stamp() -> None:
    later = COPY.replace(b'"serial": 41', b'"serial": 42')
    assert copies.stamp_of(later).serial == 42
    changed = [later, COPY[:-1], COPY + b"x", *(COPY[:at] + b"\0" + COPY[at + 1 :] for at in range(0, len(COPY), 7))]
    for data in changed:
        with pytest.raises(errors.InvalidInput):
            copies.opened(data, cluster_key=CLUSTER_KEY)


def test_a_copy_that_unpacks_to_more_than_a_configuration_can_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MOST", len(CONFIGURATION) - 1)
    with pytest.raises(errors.InvalidInput, match="longer than"):
        copies.opened(COPY, cluster_key=CLUSTER_KEY)


@pytest.mark.parametrize("epoch", [None, Epoch(3, "id3")])
def test_parts_and_answers_pass_between_the_controller_and_its_node(epoch: Epoch | None) -> None:
    asked = part(epoch=epoch)
    sealed = copies.sealed_part(asked, key=KEY, now=7)
    assert copies.part(sealed, key=KEY, node=NODE) == asked

    given = copies.Received(NODE, "nonce", STAMP, 40, "full", copies.NEEDED[:1])
    assert copies.received(copies.sealed_received(given, key=KEY, now=8), key=KEY, asked=asked) == given
    nothing = copies.Received(NODE, "nonce", None, 0)
    assert copies.received(copies.sealed_received(nothing, key=KEY, now=8), key=KEY, asked=asked) == nothing


@pytest.mark.parametrize(
    "wrong",
    [
        {"node": "another"},
        {"offset": len(COPY) - 29},
        {"size": copies.MOST + 1},
        {"digest": "0"},
        {"digest": "../" * 21 + "x"},
        {"epoch": Epoch(-1, "id3")},
        {"epoch": Epoch(3, "Ü" * 3)},
        {"stamp": copies.Stamp(3, -1, 0)},
    ],
)
def test_a_part_that_is_not_within_a_copy_for_this_node_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidInput):
        copies.part(copies.sealed_part(part(**wrong), key=KEY, now=0), key=KEY, node=NODE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"nonce": "of before"},
        {"node": "another"},
        {"wanted": len(COPY) + 1},
        {"wanted": -1},
        {"lacks": ("etc/shadow",)},
    ],
)
def test_an_answer_of_another_part_or_of_what_a_node_cannot_know_is_refused(wrong: dict[str, object]) -> None:
    given = dataclasses.replace(copies.Received(NODE, "nonce", STAMP, 40), **wrong)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidInput):
        copies.received(copies.sealed_received(given, key=KEY, now=8), key=KEY, asked=part())


def test_what_is_not_signed_is_no_part() -> None:
    for data in (
        b"",
        b"{}",
        b'{"msg": "[1]", "salt": "1", "hmac": "1"}',
        copies.sealed_part(part(), key=KEY, now=0)[:-9],
        copies.sealed_part(part(), key=b"x" * 64, now=0),
    ):
        with pytest.raises(errors.ReportRejected):
            copies.part(data, key=KEY, node=NODE)
