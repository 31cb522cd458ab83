from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.values import capitals


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("confirm node3 off with the BMC of node3", "Confirm node3 off with the BMC of node3"),
        ("Done", "Done"),
        ("", ""),
    ],
)
def test_only_the_first_letter_becomes_a_capital(text: str, told: str) -> None:
    assert capitals.capitalized(text) == told
