from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import host_variables


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ansible_host", "node1.example.org"),
        ("ansible_host", "192.0.2.1"),
        ("ansible_host", "2001:db8::1"),
        ("ansible_host", "fe80::1%eth0"),
        ("ansible_port", "22"),
        ("ansible_user", "root"),
        ("ansible_user", "svc_ops@example.org"),
        ("ansible_become", "True"),
        ("ansible_become_user", "root"),
        ("ansible_become_method", "sudo"),
    ],
)
def test_a_plain_host_variable_is_taken(name: str, text: str) -> None:
    assert host_variables.given("hostvars", {name: text}) == {name: text}
    assert host_variables.plain({name: text}) == {name: text}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("ansible_port", 2222, "2222"), ("ansible_become", True, "true"), ("ansible_become", False, "false")],
)
def test_a_number_or_a_boolean_of_json_is_kept_as_text(name: str, value: object, text: str) -> None:
    assert host_variables.given("hostvars", {name: value}) == {name: text}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ansible_host", "-oProxyCommand=id"),
        ("ansible_host", "a b"),
        ("ansible_host", "a\nb"),
        ("ansible_host", "a.example\n"),
        ("ansible_host", "{{ lookup('pipe', 'id') }}"),
        ("ansible_host", "#jinja2:variable_start_string:'<<'\n<< x >>"),
        ("ansible_host", "fe80::1%-oProxyCommand=id"),
        ("ansible_host", "fe80::1%{{ x }}"),
        ("ansible_host", "user@host"),
        ("ansible_port", "0"),
        ("ansible_port", "65536"),
        ("ansible_port", "22 -oX"),
        ("ansible_port", "٢٢"),
        ("ansible_user", "-oX"),
        ("ansible_user", 'a" -oX'),
        ("ansible_user", "a b"),
        ("ansible_become", "{{ true }}"),
        ("ansible_become_user", "$(id)"),
        ("ansible_become_method", "community.general.pbrun"),
        ("ansible_ssh_common_args", "-o ProxyCommand=id"),
        ("ansible_ssh_executable", "/bin/sh"),
        ("ansible_connection", "local"),
        ("ansible_python_interpreter", "/bin/sh"),
        ("roundsman_root", "/tmp"),
        ("roundsman_lab_root", "/tmp"),
        ("ansible_user", 5),
        ("ansible_user", True),
        ("ansible_port", True),
        ("ansible_port", 22.0),
        ("ansible_port", 65536),
        ("ansible_port", 10**400),
        ("ansible_become", 1),
        ("ansible_user", ["root"]),
    ],
)
def test_any_other_name_or_value_is_refused_and_reaches_no_run(name: str, text: Any) -> None:
    with pytest.raises(errors.InvalidInput, match=f"^hostvars.{name}"):
        host_variables.given("hostvars", {name: text})
    assert (host_variables.plain({name: text}), host_variables.ignored({name: text})) == ({}, [name])


@pytest.mark.parametrize("text", ["", "default", None])
def test_any_variable_can_be_removed_also_one_of_an_earlier_version(text: str | None) -> None:
    changes = host_variables.given("hostvars", {"ansible_connection": text})
    assert host_variables.merged({"ansible_connection": "local", "ansible_user": "a"}, changes) == {"ansible_user": "a"}
