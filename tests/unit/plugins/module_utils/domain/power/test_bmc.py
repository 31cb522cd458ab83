from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import bmc, power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

# A BMC of Super Micro: firmware 3.77, manufacturer 10876, product 2404.
DEVICE_ID = bytes.fromhex("20010377 02bf 7c2a00 6409 00000000".replace(" ", ""))


def test_a_device_id_says_who_made_the_bmc_and_which_firmware_it_has() -> None:
    assert bmc.of_device_id(DEVICE_ID) == bmc.Identity(
        firmware="3.77", device_id=0x20, manufacturer_id=10876, product_id=2404
    )


def test_the_bit_that_says_a_bmc_is_being_updated_is_no_part_of_its_version() -> None:
    busy = DEVICE_ID[:2] + bytes((DEVICE_ID[2] | 0x80,)) + DEVICE_ID[3:]
    assert bmc.of_device_id(busy) == bmc.of_device_id(DEVICE_ID)


def test_a_device_id_that_is_cut_short_is_refused() -> None:
    with pytest.raises(errors.PowerFailed, match="too short"):
        bmc.of_device_id(DEVICE_ID[:10])


def test_a_description_is_read_back_as_it_was() -> None:
    known = bmc.of_device_id(DEVICE_ID)
    one = bmc.Description("node1", "ipmi", "192.0.2.1", power.State.ON, known, ("status",), "busy", "a text")
    assert bmc.parse_description(one.as_dict()) == one
    assert one.as_dict()["power"] == "on"
