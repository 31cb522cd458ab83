"""What a BMC is, as it says itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

from ..values import errors
from . import power

DEVICE_ID = 11
"""Bytes of the answer to Get Device ID that every BMC gives."""


@dataclass(frozen=True)
class Identity:
    """Who made a BMC and its node; what a driver cannot tell is None.

    `manufacturer` and `model` are names, which Redfish has; IPMI has numbers: `device_id`, `manufacturer_id` (of the
    list of enterprises that IANA keeps) and `product_id`.
    """

    manufacturer: Optional[str] = None
    model: Optional[str] = None
    firmware: Optional[str] = None
    device_id: Optional[int] = None
    manufacturer_id: Optional[int] = None
    product_id: Optional[int] = None


@dataclass(frozen=True)
class Description:
    """One node's BMC and its power; `reason` is a value of `power.Reason`, None when everything could be asked.

    `supports` names the commands of `power.Command` that it takes, and `health`; empty when that could not be asked.
    """

    name: str
    driver: str = ""
    address: str = ""
    state: power.State = power.State.UNKNOWN
    identity: Identity = Identity()
    supports: Tuple[str, ...] = ()
    reason: Optional[str] = None
    text: Optional[str] = None

    def as_dict(self) -> Dict[str, Any]:
        """Give the description as JSON values, the power as `power`."""
        values = asdict(self)
        values["power"] = values.pop("state").value
        return values


def unread(name: str, failure: power.Failure) -> Description:
    """Describe a BMC that was not asked."""
    return Description(name, reason=failure.reason.value, text=failure.text)


def parse_description(document: Mapping[str, Any]) -> Description:
    """Read back what `Description.as_dict` gave."""
    values = dict(document)
    values["state"] = power.State(values.pop("power"))
    values["identity"] = Identity(**values["identity"])
    values["supports"] = tuple(values["supports"])
    return Description(**values)


def of_device_id(data: bytes) -> Identity:
    """Read the answer to Get Device ID (IPMI 2.0, 20.1).

    Raises:
        errors.PowerFailed: it is too short.
    """
    if len(data) < DEVICE_ID:
        raise errors.PowerFailed(power.Reason.REFUSED.value, "the device id is too short")
    return Identity(
        firmware=f"{data[2] & 0x7F}.{data[3]:02x}",
        device_id=data[0],
        manufacturer_id=int.from_bytes(data[6:9], "little") & 0xFFFFF,
        product_id=int.from_bytes(data[9:11], "little"),
    )
