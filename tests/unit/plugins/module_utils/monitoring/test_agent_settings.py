from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import agent_settings
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from . import nodes


def test_what_is_left_out_has_its_default_and_listens_on_loopback_only() -> None:
    found = agent_settings.parse("{}")
    assert found.place == (("127.0.0.1",), 1815, ())
    assert found.intervals == agent_settings.DEFAULT_SECONDS


def test_collectors_that_are_not_named_keep_their_intervals() -> None:
    found = agent_settings.parse('{"collectors": {"lv": 0, "diagnose": 15.5}}')
    assert found.intervals["lv"] == 0
    assert found.intervals["diagnose"] == 15.5
    assert found.intervals["drbd"] == agent_settings.DEFAULT_SECONDS["drbd"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"comand": "x"}, "comand"),
        ({"bind": []}, "bind"),
        ({"bind": "127.0.0.1"}, "bind"),
        ({"bind": ["node1"]}, "bind"),
        ({"port": 65536}, "port"),
        ({"port": 1815.5}, "port"),
        ({"port": True}, "port"),
        ({"diagnose_command": "../x"}, "diagnose_command"),
        ({"hypervisor": 1}, "hypervisor"),
        ({"collectors": {"smart": 60}}, "smart"),
        ({"collectors": {"lv": 0.1}}, "lv"),
        ({"collectors": {"lv": "60"}}, "lv"),
        ({"collectors": []}, "collectors"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(errors.InvalidInput, match=named):
        agent_settings.parse(json.dumps(fields))


@given(
    st.dictionaries(
        st.sampled_from(["bind", "port", "diagnose_command", "hypervisor", "collectors"]),
        st.recursive(
            st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["lv", "drbd", "x"]), inner),
        ),
    )
)
def test_whatever_the_fields_are_they_are_settings_or_refused(fields: dict[str, Any]) -> None:
    try:
        found = agent_settings.parse(json.dumps(fields))
    except errors.InvalidInput:
        return
    assert all(one == 0 or one >= 1 for one in found.intervals.values())


def test_a_file_that_others_may_write_does_not_count(node: nodes.Node) -> None:
    node.settings()
    watched = agent_settings.Watched(node.root / "etc/roundsman/agent.json")
    node.write("etc/roundsman/agent.json", '{"port": 1}', mode=0o666)
    assert not watched.refresh()
    assert "too permissive" in watched.error


def test_a_file_that_is_gone_leaves_the_last_good_settings(node: nodes.Node) -> None:
    known = node.settings(diagnose_command="check")
    watched = agent_settings.Watched(node.root / "etc/roundsman/agent.json")
    (node.root / "etc/roundsman/agent.json").unlink()
    assert not watched.refresh()
    assert watched.settings == known
    assert "agent.json" in watched.error
    node.settings(diagnose_command="check")
    watched.refresh()
    assert watched.error == ""


def test_the_controllers_addresses_are_read_and_another_process_answers_when_they_change() -> None:
    before, after = (agent_settings.parse(text) for text in ("{}", '{"controllers": ["192.0.2.1", "2001:db8::1"]}'))
    assert (before.controllers, after.controllers) == ((), ("192.0.2.1", "2001:db8::1"))
    assert before.place != after.place
    assert agent_settings.parse('{"controllers": []}').controllers == ()
    with pytest.raises(errors.InvalidInput, match="controllers: 'node1' is no IP address"):
        agent_settings.parse('{"controllers": ["node1"]}')
