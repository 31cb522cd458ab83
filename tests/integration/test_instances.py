"""Instances made, interrupted, tried again, changed and removed in a lab, by the command and by Ganeti's resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration import labs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow
WEB = {"name": "web", "disk_template": "drbd", "disks": [{"size": 2048}], "beparams": {"memory": 512}}
PLAYBOOK = """
- name: Install
  hosts: roundsman_primary
  gather_facts: false
  tasks:
    - name: Tell that it is at work
      ansible.builtin.file: {{path: "{folder}/began", state: touch}}
      delegate_to: localhost
    - name: Wait until it may go on
      ansible.builtin.wait_for: {{path: "{folder}/go", timeout: 200, sleep: 1}}
      delegate_to: localhost
    - name: Write where it was done
      ansible.builtin.copy: {{content: "{{{{ instance.name }}}} {{{{ inventory_hostname }}}}", dest: "{folder}/done"}}
      delegate_to: localhost
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[labs.Running]:
    one = labs.up(tmp_path / "lab", nodes=4, instances=2)
    try:
        yield one
    finally:
        labs.down(one)


def ended(one: labs.Running, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Ask for a job, and wait for its end."""
    answer = one.ask(method, path, body)
    assert answer.status_code == 200, answer.text
    job = answer.json()
    one.until(lambda running: running.get(f"/2/jobs/{job}")["status"] in {"success", "error", "canceled"}, "its end")
    found: dict[str, Any] = one.get(f"/2/jobs/{job}")
    return found


def test_what_is_killed_half_way_is_unfinished_and_goes_on_or_is_removed(running: labs.Running, tmp_path: Path) -> None:
    playbook = tmp_path / "os.yml"
    playbook.write_text(PLAYBOOK.format(folder=tmp_path))
    asked = {**WEB, "os_playbook": str(playbook)}
    job = running.ask("POST", "/2/instances", asked).json()
    running.until(lambda _: (tmp_path / "began").exists(), "the playbook is at work")
    assert running.delete(f"/2/jobs/{job}").status_code == 200
    running.until(lambda one: one.get(f"/2/jobs/{job}")["status"] == "canceled", "it is canceled")
    one = running.cluster().instance("web")
    assert (one.is_unfinished, one.is_up) == (True, False)
    assert running.wrong() == []
    (tmp_path / "go").touch()
    assert ended(running, "POST", "/2/instances", asked)["status"] == "success"
    again = running.cluster().instance("web")
    assert (again.uuid, again.is_unfinished, again.is_up) == (one.uuid, False, True)
    assert (tmp_path / "done").read_text() == f"web {running.cluster().node_name(again.primary_node)}"
    assert ended(running, "PUT", "/2/instances/web/migrate", {})["status"] == "success"
    assert running.wrong() == []
    assert ended(running, "DELETE", "/2/instances/web", {})["status"] == "success"
    assert "web" not in [each.name for each in running.cluster().instances.values()]
    assert running.wrong() == []


def test_a_daemon_that_is_killed_while_an_instance_is_made_settles_it(running: labs.Running, tmp_path: Path) -> None:
    playbook = tmp_path / "os.yml"
    playbook.write_text(PLAYBOOK.format(folder=tmp_path))
    job = running.ask("POST", "/2/instances", {**WEB, "os_playbook": str(playbook)}).json()
    running.until(lambda _: (tmp_path / "began").exists(), "the playbook is at work")
    running.kill()
    (tmp_path / "go").touch()
    running.start()
    running.until(lambda one: one.get(f"/2/jobs/{job}")["status"] == "success", "the job goes on")
    assert running.cluster().instance("web").is_up
    assert running.wrong() == []
