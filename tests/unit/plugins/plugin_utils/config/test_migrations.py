from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document, migrations

from tests.unit import small_cluster

CLUSTER = small_cluster.make()


def test_a_document_of_the_first_version_is_read_without_a_checksum() -> None:
    first = {**json.loads(document.dump(CLUSTER)), "version": 1}
    del first["filters"]
    assert document.unseal(json.dumps(first).encode()) == CLUSTER


def test_there_is_a_step_from_every_version_to_the_next() -> None:
    assert sorted(migrations.STEPS) == list(range(1, clusters.VERSION))


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ({"version": clusters.VERSION + 1}, "it was written by a newer Roundsman"),
        ({"version": 0}, "version is 0"),
        ({"version": True}, "version is True"),
        ({"version": "2"}, "version is '2'"),
        ({}, "version is None"),
        ([], "version is None"),
    ],
)
def test_a_version_that_this_program_cannot_read_is_refused(raw: Any, named: str) -> None:
    with pytest.raises(errors.InvalidInput, match=named):
        migrations.to_current(raw)
