from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import signing

from .running import Modules

if TYPE_CHECKING:
    from .running import Controller

KEY = b"0123456789abcdef0123456789abcdef01234567\n"
PAIR: dict[str, Any] = {"uuid": "i1", "here": {"name": "node2"}, "peer": {"name": "node3"}, "state": "active"}
SECRET = signing.pair_secret(KEY, "i1", ("node2", "node3"))


@pytest.mark.parametrize(
    ("options", "secret"),
    [
        (PAIR, SECRET),
        ({**PAIR, "here": PAIR["peer"], "peer": PAIR["here"]}, SECRET),
        ({**PAIR, "secret": "given"}, "given"),
        ({**PAIR, "peer": {}}, None),
        ({**PAIR, "uuid": ""}, None),
        ({**PAIR, "disk_template": "plain"}, None),
    ],
)
def test_the_module_gets_the_secret_of_the_pair_and_nobody_sees_it(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], secret: str | None
) -> None:
    controller.where.hmac_key.write_bytes(KEY)
    modules = Modules(monkeypatch, lambda _: {"changed": True, "devices": ["/dev/drbd0"], "secret": SECRET})
    result = controller.run("instance_disks", **options)
    assert result == {"changed": True, "devices": ["/dev/drbd0"]}
    (call,) = modules.calls
    assert call.get("secret") == secret
    assert {**call, "secret": None} == {**options, "module": "roundsman.cluster.instance_disks", "secret": None}


def test_without_a_cluster_there_is_no_secret(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = Modules(monkeypatch, lambda _: {"changed": False})
    controller.run("instance_disks", **PAIR)
    assert modules.calls[0]["secret"] == ""


@pytest.mark.parametrize(("is_empty", "said"), [(False, "cannot be read: Is a directory"), (True, "key is empty")])
def test_a_key_that_cannot_be_used_is_told_and_the_node_is_not_contacted(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, said: str, *, is_empty: bool
) -> None:
    modules = Modules(monkeypatch, lambda _: {"changed": False})
    if is_empty:
        controller.where.hmac_key.write_bytes(b"")
    else:
        controller.where.hmac_key.mkdir()
    with pytest.raises(AnsibleActionFail, match=f"hmac.key.* {said}"):
        controller.run("instance_disks", **PAIR)
    assert modules.calls == []
