from __future__ import annotations

from ansible_collections.roundsman.cluster.daemon.warm import frozen


def test_a_setting_that_ansible_reads_once_is_told_and_others_are_not() -> None:
    environment = {
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORKS": "3",
        "LC_ALL": "C.UTF-8",
        "ROUNDSMAN_RUN": "/x",
        "HOME": "/",
    }
    assert frozen.settings(environment) == {"ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8", "HOME": "/"}


def test_a_run_that_would_lose_settings_is_told_which() -> None:
    before = {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": "/a"}
    assert frozen.difference(before, dict(before), source="the server") == ""
    assert frozen.difference(before, {"ANSIBLE_HOME": "/b", "ANSIBLE_GATHERING": "smart"}, source="the server") == (
        "it differs in ANSIBLE_GATHERING, ANSIBLE_HOME, ANSIBLE_NOCOLOR from the server"
    )
