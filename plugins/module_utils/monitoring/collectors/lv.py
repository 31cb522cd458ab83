"""The logical volumes of the node, from `lvs`."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List

from ...domain.values import errors
from .. import observing

FIELDS = {
    "lv_uuid": "uuid",
    "lv_name": "name",
    "lv_attr": "attr",
    "lv_major": "major",
    "lv_minor": "minor",
    "lv_kernel_major": "kernel_major",
    "lv_kernel_minor": "kernel_minor",
    "lv_size": "size",
    "seg_count": "seg_count",
    "lv_tags": "tags",
    "lv_modules": "modules",
    "vg_uuid": "vg_uuid",
    "vg_name": "vg_name",
    "segtype": "segtype",
    "seg_start": "seg_start",
    "seg_start_pe": "seg_start_pe",
    "seg_size": "seg_size",
    "seg_tags": "seg_tags",
    "seg_pe_ranges": "seg_pe_ranges",
    "devices": "devices",
}
"""What `lvs` calls a field, and what Ganeti does; sizes are in bytes."""
COMMAND = ("lvs", "--reportformat", "json", "--units", "b", "--nosuffix", "--segments", "-o", ",".join(FIELDS))
_NUMBERS = frozenset(
    {"major", "minor", "kernel_major", "kernel_minor", "size", "seg_count", "seg_start", "seg_start_pe", "seg_size"}
)


def make() -> observing.Collect:
    """The collector; it keeps nothing."""
    return lambda _: observing.as_json(parse(observing.output(COMMAND)))


def parse(text: str) -> List[Dict[str, Any]]:
    """The segments of the volumes in what `lvs` prints.

    Raises: errors.Failed for another text.
    """
    try:
        rows = [row for report in json.loads(text)["report"] for row in report["lv"]]
        return [{ours: _value(ours, row[theirs]) for theirs, ours in FIELDS.items()} for row in rows]
    except (ValueError, KeyError, TypeError) as e:
        raise errors.Failed("lvs printed something unexpected: {!r}".format(e)) from e


def _value(field: str, text: str) -> Any:
    return int(text) if field in _NUMBERS and re.fullmatch("-?[0-9]+", text) else text
