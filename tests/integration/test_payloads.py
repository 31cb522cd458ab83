"""Values that people and hosts give reach plays as they are: none is a template, whatever it looks like."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import opcode_process
from ansible_collections.roundsman.cluster.daemon.lab import world
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import ansible_runs
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import hosts, store
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, registry

from tests.unit.daemon import twins

PLAY = """
- hosts: NODE
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        content: "{{ shown | to_json }}"
        dest: "{{ answer }}"
      delegate_to: localhost
    - ansible.builtin.debug: {msg: "{{ shown }}"}
    - ansible.builtin.set_fact: {once_more: "{{ shown }}"}
    - ansible.builtin.debug: {msg: "{{ once_more }} {{ hostvars['NODE'] | length }}"}
    - ansible.builtin.debug: {msg: "{{ shown }}"}
      loop: "{{ shown }}"
      loop_control: {label: "{{ item }}"}
"""


def payloads(marker: Path) -> list[str]:
    """Texts that would make the marker file if anything took them for a template."""
    command = f"touch {shlex.quote(str(marker))}"
    lookup = f"lookup('pipe', {command!r})"
    return [
        f"{{{{ {lookup} }}}}",
        f"{{% set x = {lookup} %}}",
        f"#jinja2:variable_start_string:'<<', variable_end_string:'>>'\n<< {lookup} >>",
        f"!unsafe {{{{ {lookup} }}}}",
        json.dumps({"__ansible_unsafe": f"{{{{ {lookup} }}}}"}),
    ]


def play(lab: world.Lab, inventory: Path, arguments: str, *, node: str = "node2") -> subprocess.CompletedProcess[str]:
    """Run the play as the daemon or a person would, with the environment of runs."""
    file = lab.folder / "play.yml"
    file.write_text(PLAY.replace("NODE", node))
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    environment = {**os.environ, **ansible_runs.environment(tree.Tree(lab.controller))}
    environment |= {"ANSIBLE_INVENTORY_ENABLED": "ansible.builtin.yaml,roundsman.cluster.cluster"}
    command = [program, "-i", str(inventory), *shlex.split(arguments), str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)


@pytest.fixture
def lab(tmp_path: Path) -> world.Lab:
    made = twins.lab(tmp_path, nodes=3, instances=0)
    file = tree.Tree(made.controller).host_vars / "node2.json"
    known = {**json.loads(file.read_text()), "of_root": "a template of {{ inventory_hostname }}"}
    file.write_text(json.dumps(known))
    return made


def test_no_variable_of_a_run_is_a_template(lab: world.Lab, tmp_path: Path) -> None:
    marker, answer, run = tmp_path / "executed", tmp_path / "answer", tmp_path / "run"
    run.mkdir()
    evil = payloads(marker)
    variables = {"given": {"texts": evil, "deep": [{"key": one} for one in evil]}, "answer": str(answer)}
    play_variables = opcode_process._variables(run, {"variables": variables})
    where = tree.Tree(lab.controller)
    cluster = store.read(where.config)
    node = dataclasses.replace(cluster.node("node2"), tags=tuple(evil))
    (run / "inventory.json").write_bytes(
        hosts.run_inventory(
            dataclasses.replace(cluster, nodes={**cluster.nodes, node.uuid: node}), [node.uuid], root=str(where.root)
        )
    )
    shown = {"shown": ["{{ given.texts }}", "{{ given.deep }}", "{{ roundsman_tags }}", "{{ of_root }}"]}
    (run / "shown.json").write_text(json.dumps(shown))
    done = play(lab, run / "inventory.json", f"{play_variables} -e @{run / 'shown.json'}")
    assert not marker.exists()
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(answer.read_text()) == [evil, [{"key": one} for one in evil], evil, "a template of node2"]


@pytest.mark.parametrize("mark", ["__ansible_unsafe", "__ansible_vault", "__ansible_type"])
def test_a_mapping_with_a_mark_of_ansible_reaches_no_play(tmp_path: Path, mark: str) -> None:
    evil: dict[str, Any] = {"given": {mark: payloads(tmp_path / "executed")[0]}}
    with pytest.raises(ValueError, match=mark):
        opcode_process._variables(tmp_path, {"variables": evil})


def test_no_variable_of_the_inventory_of_plays_by_hand_is_a_template(lab: world.Lab, tmp_path: Path) -> None:
    marker, answer = tmp_path / "executed", tmp_path / "answer"
    evil = payloads(marker)
    where = tree.Tree(lab.controller)
    cluster = store.read(where.config)
    settings = dataclasses.replace(cluster.maintenance.settings, diagnose_command=evil[0])
    node = dataclasses.replace(cluster.node("node2"), tags=tuple(evil), ndparams={"oob_program": evil[2]})
    changed = dataclasses.replace(
        cluster,
        nodes={**cluster.nodes, node.uuid: node},
        maintenance=dataclasses.replace(cluster.maintenance, settings=settings),
    )
    store.write(where.config, changed)
    texts = ["diagnose_command", "roundsman_tags", "roundsman_oob_program", "of_root"]
    shown = {"shown": [f"{{{{ {name} }}}}" for name in texts]}
    (tmp_path / "shown.json").write_text(json.dumps({**shown, "answer": str(answer)}))
    done = play(lab, lab.folder / "inventory/roundsman.yml", f"-e @{tmp_path / 'shown.json'}")
    assert not marker.exists()
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(answer.read_text()) == [evil[0], evil, evil[2], "a template of node2"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ansible_host", "{{ lookup('pipe', 'touch MARKER') }}"),
        ("ansible_host", "-oProxyCommand=touch MARKER"),
        ("ansible_ssh_common_args", '-o ProxyCommand="touch MARKER"'),
        ("ansible_ssh_executable", "MARKER.sh"),
        ("ansible_connection", "local"),
        ("ansible_python_interpreter", "MARKER.sh"),
    ],
)
def test_host_variables_of_the_configuration_run_nothing_on_the_controller(
    lab: world.Lab, tmp_path: Path, name: str, text: str
) -> None:
    """As a configuration of an earlier version may have them; the node itself is reached over SSH, on a closed port."""
    marker = tmp_path / "executed"
    script = tmp_path / "executed.sh"
    script.write_text(f"#!/bin/sh\ntouch {marker}\n")
    script.chmod(0o755)
    where = tree.Tree(lab.controller)
    cluster = store.read(where.config)
    variables = {"ansible_port": "1", name: text.replace("MARKER", str(marker))}
    node = dataclasses.replace(cluster.node("node2"), hostvars=variables, name="stranger")
    changed = dataclasses.replace(cluster, nodes={**cluster.nodes, node.uuid: node})
    inventory = tmp_path / "inventory.json"
    inventory.write_bytes(hosts.run_inventory(changed, [node.uuid], root=str(where.root)))
    file = tmp_path / "ping.yml"
    file.write_text("- hosts: stranger\n  gather_facts: false\n  tasks: [{ansible.builtin.ping: }]\n")
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    environment = {**os.environ, **ansible_runs.environment(where), "ANSIBLE_TIMEOUT": "3"}
    command = [program, "-i", str(inventory), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 4, done.stdout + done.stderr
    assert not marker.exists()


EVIL_HOST = """#!{python}
import json, sys
sys.stdin.buffer.read()
lookup = "lookup('pipe', 'touch {marker}')"
template = "{{{{ " + lookup + " }}}}"
other_marks = "#jinja2:variable_start_string:'<<', variable_end_string:'>>'\\n<< " + lookup + " >>"
evil, good, text = "/d/" + template + ".img", "/d/good", "<domain><title>$(touch {marker})</title></domain>"
emulator = "<domain><devices><emulator>{marker}.sh</emulator></devices></domain>"


def domain(number, name, source="", link="br0", xml="<domain/>", **more):
    source = source or good + str(number)
    return {{
        "name": name, "uuid": "11111111-1111-1111-1111-%012d" % number, "xml": xml, "memory": 128, "vcpus": 1,
        "running": True, "autostart": True,
        "disks": [{{"type": "file", "source": source, "target": "vda"}}],
        "nics": [{{"mac": "52:54:00:00:00:%02d" % number, "type": "bridge", "link": link}}],
        **more,
    }}


domains = [
    domain(1, "path", source=evil), domain(2, "link", link=template), domain(3, "xml", xml=other_marks),
    domain(4, "uuid", uuid=template), domain(5, template), domain(6, "good"), domain(7, "marks", xml=template),
    domain(8, "text", xml=text), domain(9, "emulator", xml=emulator), domain(10, "shadow", source="/etc/shadow"),
    domain(11, "twin", source=good + "12"), domain(12, "twin2"),
]
paths = (evil, "/etc/shadow", *(good + str(n) for n in range(13)))
files = {{path: {{"shared": False, "size": 100}} for path in paths}}
print(json.dumps({{
    "changed": False, "hostname": "evilhost", "ansible_facts": {{"ansible_remote_tmp": "$(touch {marker})"}},
    "libvirt": {{"domains": domains, "memory": 10000, "own_memory": 100, "cpus": 4}},
    "storage": {{"resources": [], "volumes": {{}}, "groups": {{}}, "devices": {{}}, "disk": 10000,
                 "shared_folders": [], "files": files}},
}}))
"""


def test_an_evil_adopted_host_executes_nothing(tmp_path: Path) -> None:
    """What it says is left out, or recorded and handed to a run as the text that it is."""
    marker, root = tmp_path / "executed", tmp_path / "root"
    host = tmp_path / "evil.py"
    host.write_text(EVIL_HOST.format(python=sys.executable, marker=marker))
    host.chmod(0o755)
    inventory = tmp_path / "hosts.ini"
    inventory.write_text(
        f"evil ansible_connection=local ansible_python_interpreter={host} ansible_host=192.0.2.1 ansible_user=root\n"
    )
    words = [
        "cluster",
        "adopt",
        "-i",
        str(inventory),
        "--name",
        "ad",
        "--controller",
        "ctl:192.0.2.250",
        "--yes",
        "--disable-autostart",
        "-o",
        "json",
    ]
    command = [str(Path(sys.executable).with_name("roundsman")), *words]
    environment = {**os.environ, "ROUNDSMAN_ROOT": str(root)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, env=environment)
    assert not marker.exists()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    left = [line.partition(":")[0] for line in found["left_out"]]
    refused = ["emulator", "link", "marks", "path", "shadow", "uuid", "xml"]
    twins = ["twin", "twin2"]
    assert left == [*refused, f"{{{{ lookup('pipe', 'touch {marker}') }}}}", *twins], done.stderr
    where = tree.Tree(root)
    cluster = store.read(where.config)
    assert sorted(one.name for one in cluster.instances.values()) == ["good", "text"]
    assert cluster.node("evil").hostvars == {"ansible_host": "192.0.2.1", "ansible_user": "root"}
    assert json.loads((where.host_vars / "evil.yml").read_text())["ansible_python_interpreter"] == str(host)
    run = tmp_path / "run"
    run.mkdir()
    one = cast("contract.PlayOpcode", registry.make("startup", {"instance": cluster.instance("text").uuid}))
    arguments = opcode_process._variables(run, {"variables": {**one.variables(cluster), "answer": str(run / "answer")}})
    (run / "inventory.json").write_bytes(hosts.run_inventory(cluster, one.hosts(cluster), root=str(root)))
    (run / "shown.json").write_text(json.dumps({"shown": ["{{ instance }}"]}))
    lab = world.Lab(tmp_path)
    (tmp_path / "controller").symlink_to(root)
    done = play(lab, run / "inventory.json", f"{arguments} -e @{run / 'shown.json'}", node="evil")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "touch" in (run / "answer").read_text()
    assert not marker.exists()
