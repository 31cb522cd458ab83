from __future__ import annotations

import json

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import sealed_json

DOCUMENT = json.dumps({"name": "node1", "memory": 4096, "tags": []}, indent=1).encode()


def test_a_sealed_object_is_plain_json_and_gives_back_what_was_sealed() -> None:
    sealed = sealed_json.seal(DOCUMENT)
    assert {**json.loads(sealed), "checksum": 0} == {**json.loads(DOCUMENT), "checksum": 0}
    assert sealed_json.unseal(sealed) == DOCUMENT
    assert sealed_json.is_sealed(sealed)


def test_no_flipped_bit_and_no_cut_is_taken_for_right() -> None:
    sealed = sealed_json.seal(DOCUMENT)
    damaged = [sealed[:index] for index in range(len(sealed))]
    damaged += [
        sealed[:index] + bytes([sealed[index] ^ (1 << bit)]) + sealed[index + 1 :]
        for index in range(len(sealed))
        for bit in range(8)
    ]
    for one in damaged:
        try:
            assert sealed_json.unseal(one) == DOCUMENT  # a space of the opening became a tab
        except errors.InvalidInput:
            continue


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"{ }", b"null"])
def test_what_is_no_object_with_members_cannot_be_sealed(text: bytes) -> None:
    with pytest.raises(errors.InvalidInput):
        sealed_json.seal(text)


def test_an_object_without_its_checksum_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="does not begin with its checksum"):
        sealed_json.unseal(DOCUMENT)


def test_an_edited_object_can_be_opened_on_purpose() -> None:
    edited = sealed_json.seal(DOCUMENT).replace(b"4096", b"8192")
    assert json.loads(sealed_json.opened(edited)) == {"name": "node1", "memory": 8192, "tags": []}
    assert sealed_json.opened(DOCUMENT) == DOCUMENT
