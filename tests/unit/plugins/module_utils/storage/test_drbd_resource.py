from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_resource
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import End

ONE, TWO = End("n1", "192.0.2.1"), End("n2", "2001:db8::2")
RESOURCE = drbd_resource.Resource("web1-disk0", "web1", 7, "/dev/vg/u.disk0", "/dev/vg/u.meta0", "host1", ONE, TWO)
TEXT = """# Written by Roundsman for web1, and again when its nodes change.
resource "web1-disk0" {
  net { protocol C; cram-hmac-alg sha256; shared-secret "abc"; after-sb-0pri disconnect; after-sb-1pri disconnect; \
after-sb-2pri disconnect; }
  disk { on-io-error detach; }
  on host1 {
    device /dev/drbd7 minor 7;
    disk /dev/vg/u.disk0;
    meta-disk /dev/vg/u.meta0;
    address ipv4 192.0.2.1:11007;
  }
  on n2 {
    device /dev/drbd7 minor 7;
    disk /dev/vg/u.disk0;
    meta-disk /dev/vg/u.meta0;
    address ipv6 [2001:db8::2]:11007;
  }
}
"""


def test_the_file_names_both_nodes_and_lets_nothing_be_recovered_automatically() -> None:
    assert dataclasses.replace(RESOURCE, secret="abc").text() == TEXT
    assert "secret" not in RESOURCE.text()


def test_the_address_of_the_peer_is_read_in_its_usual_form() -> None:
    assert drbd_resource.written_peer_address(TEXT) == "2001:db8::2"
    assert drbd_resource.written_peer_address(TEXT.replace("[2001:db8::2]", "[2001:DB8:0::2]")) == "2001:db8::2"
    assert drbd_resource.written_peer_address("") == ""


def test_version_9_numbers_the_nodes_and_lets_nobody_be_primary_unasked() -> None:
    text = dataclasses.replace(RESOURCE, node_ids=(1, 0)).text()
    assert drbd_resource.written_ids(text) == [1, 0]
    assert "options { auto-promote no; }" in text
    assert "auto-promote" not in RESOURCE.text()


@pytest.mark.parametrize(
    ("here", "peer", "written", "ids"),
    [
        (ONE, TWO, "", (0, 1)),
        (TWO, ONE, "", (1, 0)),
        (ONE, TWO, "node-id 1;\nnode-id 0;", (1, 0)),
        (ONE, dataclasses.replace(TWO, node_id=0), "", (1, 0)),
        (dataclasses.replace(ONE, node_id=1), TWO, "", (1, 0)),
    ],
)
def test_the_numbers_are_those_of_the_file_then_those_given_then_by_address(
    here: End, peer: End, written: str, ids: tuple[int, int]
) -> None:
    assert drbd_resource.node_ids(here, peer, written=written) == ids


def test_the_peer_is_read_from_the_file() -> None:
    assert drbd_resource.written_peer(RESOURCE.text()) == "n2"
    assert drbd_resource.written_peer("") == ""


def test_a_copy_of_an_older_pair_is_not_taken_into_one_with_other_numbers() -> None:
    older = dataclasses.replace(RESOURCE, node_ids=(1, 0)).text()
    assert drbd_resource.node_ids(ONE, dataclasses.replace(TWO, node_id=0), written=older) == (1, 0)
    with pytest.raises(errors.Refused, match="n2 has the number 1, and 0 in the file of an older replica here"):
        drbd_resource.node_ids(ONE, dataclasses.replace(TWO, node_id=1), written=older)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"secret": 'a"; }'}, "the secret must have"),
        ({"secret": "a" * 64}, "the secret must have"),
        ({"minor": -1}, "-1 is no minor"),
        ({"minor": 54536}, "54536 is no minor"),
        ({"nodename": "n2"}, "n2 cannot be its own peer"),
        ({"nodename": "a b"}, "'a b' cannot be the name"),
        ({"peer": End("n2", "node2.example")}, "'node2.example' is no IP address"),
    ],
)
def test_what_would_be_something_else_in_the_file_is_refused(changed: dict[str, object], text: str) -> None:
    with pytest.raises(errors.InvalidInput, match=text):
        dataclasses.replace(RESOURCE, **changed).text()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "metadata"),
    # The figures of DRBD's user guide: 1 GiB, 1 TiB and 4 TiB, each rounded up.
    [(1, 1), (1024, 1), (10240, 1), (1024 * 1024, 33), (4 * 1024 * 1024, 129)],
)
def test_metadata_have_a_bit_for_every_4_kib(size: int, metadata: int) -> None:
    assert drbd_resource.metadata_size(size) == metadata


def test_a_resource_is_named_after_its_instance_where_drbd_can_take_that() -> None:
    assert drbd_resource.name("web1.example.org", "u", 1) == "web1.example.org-disk1"
    assert drbd_resource.name("1web", "u", 0) == drbd_resource.name("web 1", "u", 0) == "u-disk0"
