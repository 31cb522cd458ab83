"""Edge cases written by hand, against hbal: score, components and moves to every digit that it prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import text_format
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import oracle

from . import htools, test_htools

if TYPE_CHECKING:
    from pathlib import Path

GROUP = "g|u|preferred||\n\n"
THREE = (
    "node1|8192|512|{free}|90000|{disk}|8|M|u|4\nnode2|8192|512|7680|90000|89000|8|N|u|4\n"
    "node3|16384|512|15872|90000|90000|16|N|u|4\n\n"
)
WEB = "web|1024|1000|1|running|Y|node1|node2|drbd|{tags}\n"
PLAIN = THREE.format(free=6656, disk=89000)
EDGES = {
    "memory is missing": THREE.format(free=4000, disk=89000) + WEB + "\n",
    "more is reported than recorded": THREE.format(free=7600, disk=89000) + WEB + "\n",
    "fractions of totals": "a|8192.7|0|8192|900.5|900|8|M|u\nb|4096.2|0|3072|900|900|8|N|u\n\n"
    "one|1024|100|1|running|Y|b|a|drbd|\n\n",
    "no disk at all": "a|8192|0|8192|0|0|8|M|u\nb|8192|0|6144|0|0|8|N|u\n\n"
    "one|1024|0|1|running|Y|b||rbd|\ntwo|1024|0|1|running|Y|b||diskless|\n\n",
    "a node nobody could read": "a|8192|0|8192|900|800|8|M|u\nb|?|?|?|?|?|?|N|u\nc|8192|0|8192|900|900|8|N|u\n\n"
    "one|1024|100|1|running|Y|b|a|drbd|\n\n",
    "slow and fast CPUs": "a|8192|0|7168|900|800|8|M|u|9||N|0|3|0.5\nb|8192|0|8192|900|800|8|N|u|9||N|0|1|2.5\n\n"
    "one|1024|100|4|running|Y|a|b|drbd|\n\n",
    "exclusive storage": "a|8192|0|7168|900|800|8|M|u|4||Y|2|1|1.0\nb|8192|0|8192|900|800|8|N|u|8||Y|6|1|1.0\n"
    "c|8192|0|8192|900|900|8|N|u|8||Y|8|1|1.0\n\none|1024|100|4|running|Y|a|b|drbd||1|2\n\n",
    "busy spindles": PLAIN.replace("|M|u|4", "|M|u|1").replace("|N|u|4", "|N|u|1")
    + WEB.replace("drbd|{tags}", "drbd||30|-")
    + "\n",
    "a promised instance": PLAIN + WEB + "new|512|100|1|running|Y|node1|node3|drbd||1|-|Y\n\n",
    "instances of every status": PLAIN.replace("6656", "1536")
    + "".join(
        f"i{number}|1024|100|1|{status}|Y|node1|node{2 + number % 2}|drbd|\n"
        for number, status in enumerate(text_format.STATUSES)
    )
    + "\n",
    "all on one node, without automatic balancing": PLAIN + WEB.replace("|Y|", "|N|") + WEB.replace("web", "db") + "\n",
    "one tag twice in a rack": PLAIN.replace("|u|4", "|u|4|rack:1")
    + WEB.format(tags="service:1,rack:1")
    + "db|1024|1000|1|running|Y|node2|node3|drbd|service:1\n"
    + "\nhtools:nlocation:rack\nhtools:iextags:service\nhtools:desiredlocation:rack\n",
    "ties": PLAIN + "".join(WEB.replace("web", name) for name in ("d", "c", "b", "a")) + "\n",
    "a policy of the group": PLAIN.replace("|8|M", "|2|M").replace("|8|N", "|2|N")
    + WEB
    + "db|1024|1000|2|running|Y|node1|node2|drbd|\n\n"
    "\ng|128,1,100,1,1,1|128,1,100,1,1,1;9999,9,9999,9,9,9|drbd,plain|1.3|2.5\n",
}


@pytest.mark.parametrize("edge", EDGES)
def test_an_edge_case_is_hbals(tmp_path: Path, edge: str) -> None:
    test_htools.compare(text_format.read(GROUP + EDGES[edge].replace("{tags}", "")), tmp_path)


def test_a_node_that_is_exactly_full_fails_n_plus_1_whatever_hbal_3_0_says_before_its_first_move(
    tmp_path: Path,
) -> None:
    """3.0 compares with less when it reads and with at most when it moves; 3.1 always with at most, as we do."""
    nodes = "a|8192|0|7168|900|800|8|M|u\nb|1024|0|1024|900|800|8|N|u\nc|8192|0|8192|900|900|8|N|u\n\n"
    cluster = text_format.read(f"{GROUP}{nodes}one|1024|100|1|running|Y|a|b|drbd|\n\n")
    told = htools.hbal(cluster, tmp_path, group="g")
    found = oracle.components(cluster)
    assert found["n1_cnt"] == 1
    assert told.components.pop("n1_cnt") in {"0.00000000", "1.00000000"}
    assert told.components.items() <= {name: f"{value:.8f}" for name, value in found.items()}.items()
    assert list(test_htools.ours(cluster, "g", rules=test_htools.HBALS)) == told.moves
