"""What people and nodes ask for while a lab goes wrong: reports, moves, repairs, power, roles, by every door."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tests.chaos import garbage
from tests.integration import labs, states

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.chaos.chronicle import Chronicle
    from tests.chaos.doors import Doors

OK = '{"status": "Ok"}'
DIAGNOSES = (
    '{"status": "evacuate", "details": {"disk": "sdb"}}',
    '{"status": "evacuate"}',
    '{"status": "evacuate-failover"}',
    '{"status": "live-repair", "command": "lab-repair"}',
    '{"status": "live-repair"}',
)
GARBAGE = ("", "no JSON", '{"status": "burning"}', '{"status": ', "[]", '{"status": "evacuate", "details": 1e999}')
MOST_BROKEN = 2
MOST_JOBS = 8


class Storm:
    """Random requests and reports, all from one seed; what is refused is an event too."""

    def __init__(self, lab: labs.Running, doors: Doors, chance: random.Random, chronicle: Chronicle) -> None:
        self._lab, self._doors, self._chance, self._chronicle = lab, doors, chance, chronicle
        self._broken: set[str] = set()

    def blow(self) -> None:
        """Let one thing happen, unless so many jobs wait that nobody asks for more."""
        if sum(job["status"] not in states.FINAL for job in self._doors.get("/1/jobs") or []) >= MOST_JOBS:
            return
        events: tuple[Callable[[], object], ...] = (
            *(self._break, self._break, self._fix, self._fix, self._fix, self._say_garbage, self._drop_garbage),
            *(self._migrate, self._migrate, self._failover, self._failover, self._replace, self._replace),
            *(self._evacuate, self._power, self._start_down, self._start_down, self._stop_and_start),
            *(self._cancel_job, self._cancel_incident, self._repair_disks, self._drain, self._verify),
            *(self._tag, self._modify, self._pause, self._play, self._play, self._send_garbage),
        )
        self._chance.choice(events)()

    def breathe(self) -> None:
        """Let one thing happen that takes little time and moves nothing."""
        quiet = (self._drop_garbage, self._send_garbage, self._tag, self._modify, self._verify)
        self._chance.choice(quiet)()

    def take_for_dead_after(self, questions: int) -> None:
        """Have a silent node taken for dead after so many questions."""
        self._doors.ask("dead after", "PUT", "/2/modify", {"dead_after": questions}, door="socket")

    def calm(self) -> None:
        """Let every node report Ok, and the rounds go on."""
        for node in self._lab.lab.nodes():
            node.say(OK)
        self._broken.clear()
        self._doors.ask("pause", "PUT", "/2/pause", {"reason": ""}, door="socket")

    def _node(self) -> str:
        return f"node{self._chance.randint(2, len(self._lab.lab.nodes()))}"

    def _instance(self) -> str:
        names = sorted(one.name for one in self._lab.cluster().instances.values())
        return self._chance.choice(names)

    def _by_command(self) -> bool:
        return self._chance.random() < 0.25

    def _break(self) -> None:
        node = self._node()
        if node in self._broken or len(self._broken) < MOST_BROKEN:
            self._broken.add(node)
            text = self._chance.choice(DIAGNOSES)
            self._lab.lab.node(node).say(text)
            self._chronicle.count("reports", "broken", f"{node} {text}")

    def _say_garbage(self) -> None:
        node = self._node()
        if node not in self._broken:
            self._broken.add(node)
            self._lab.lab.node(node).say(self._chance.choice(GARBAGE))
            self._chronicle.count("reports", "garbage", node)

    def _drop_garbage(self) -> None:
        whole = labs.report(self._lab, self._node(), OK)
        text = self._chance.choice((whole[: self._chance.randrange(len(whole))], "{", "\0" * 100, whole + whole))
        try:
            labs.drop(self._lab, f"{self._chronicle.total('reports')}.json", text)
        except OSError:
            return
        self._chronicle.count("reports", "dropped garbage")

    def _send_garbage(self) -> None:
        garbage.send(self._doors, self._chronicle, self._chance, instance=self._instance(), node=self._node())

    def _fix(self) -> None:
        """Repair a node, acknowledge its incident, and bring it back, as a person does step by step."""
        for node in sorted(self._broken):
            if self._chance.random() < 0.5:
                self._broken.discard(node)
                self._lab.lab.node(node).say(OK)
                self._chronicle.count("reports", "Ok", node)
        for found in self._doors.get("/1/status") or []:
            if found["repair-status"] in {"completed", "failed"}:
                self._doors.ask("ack", "PUT", f"/2/incidents/{found['id']}/ack")
        for node in self._doors.get("/1/nodes") or []:
            if node["name"] not in self._broken and (node["offline"] or node["drained"] or node["powered"] is False):
                self._bring_back(node["name"])

    def _bring_back(self, node: str) -> None:
        if self._by_command():
            self._doors.command("node", "power", "on", node)
            self._doors.command("node", "online", node)
            return
        self._doors.ask("power on", "PUT", f"/2/nodes/{node}/power", {"command": "on"})
        force = int(self._chance.random() < 0.3)
        self._doors.ask("online", "PUT", f"/2/nodes/{node}/role?force={force}", "online")

    def _cancel_incident(self) -> None:
        if found := self._doors.get("/1/status"):
            self._doors.ask("cancel incident", "PUT", f"/2/incidents/{self._chance.choice(found)['id']}/cancel")

    def _cancel_job(self) -> None:
        jobs = [one["id"] for one in self._doors.get("/1/jobs") or [] if one["status"] not in states.FINAL]
        if jobs:
            self._doors.ask("cancel job", "DELETE", f"/2/jobs/{self._chance.choice(jobs)}")

    def _migrate(self) -> None:
        name = self._instance()
        if self._by_command():
            self._doors.command("instance", "migrate", name)
        else:
            self._doors.ask("migrate", "PUT", f"/2/instances/{name}/migrate", {})

    def _failover(self) -> None:
        name = self._instance()
        ignores = self._chance.random() < 0.1
        if self._by_command():
            self._doors.command("instance", "failover", name, *(["--ignore-consistency", "--yes"] if ignores else []))
        else:
            body: dict[str, Any] = {"ignore_consistency": True} if ignores else {}
            self._doors.ask("failover", "PUT", f"/2/instances/{name}/failover", body)

    def _replace(self) -> None:
        name = self._instance()
        if self._by_command():
            self._doors.command("instance", "replace-disks", name)
            return
        body: dict[str, Any] = {"mode": "replace_new_secondary"}
        if self._chance.random() < 0.4:
            cluster = self._lab.cluster()
            one = cluster.instance(name)
            body["remote_node"] = cluster.node_name(self._chance.choice(one.secondary_nodes or one.nodes))
        self._doors.ask("replace disks", "POST", f"/2/instances/{name}/replace-disks", body)

    def _repair_disks(self) -> None:
        name = self._instance()
        if self._by_command():
            self._doors.command("instance", "repair-disks", name)
        elif self._chance.random() < 0.3:
            self._doors.play("repair.yml", "-e", f"instance_name={name}")
        else:
            cluster = self._lab.cluster()
            node = cluster.node_name(self._chance.choice(cluster.instance(name).nodes))
            body = {"discard": node} if self._chance.random() < 0.2 else {}
            self._doors.ask("repair disks", "PUT", f"/2/instances/{name}/repair-disks", body)

    def _stop_and_start(self) -> None:
        name = self._instance()
        if self._by_command():
            self._doors.command("instance", "stop", name, "--yes")
        else:
            self._doors.ask("shutdown", "PUT", f"/2/instances/{name}/shutdown", {})
        self._doors.ask("startup", "PUT", f"/2/instances/{name}/startup", {})

    def _start_down(self) -> None:
        """Start what is down, as a person does who looks around."""
        running = {name for node in self._lab.lab.nodes() for name in states_of(node)}
        cluster = self._lab.cluster()
        down = sorted(one.name for one in cluster.instances.values() if one.name not in running)
        for name in down[:2]:
            kind = "startup" if self._chance.random() < 0.7 else "failover"
            self._doors.ask(kind, "PUT", f"/2/instances/{name}/{kind}", {})

    def _evacuate(self) -> None:
        node = self._node()
        if self._by_command():
            self._doors.command("evacuate", node, *self._chance.choice(([], ["--failover"])))
        else:
            mode = self._chance.choice(("evacuate", "migrate"))
            self._doors.ask("evacuate", "POST", f"/2/nodes/{node}/{mode}", {})

    def _power(self) -> None:
        command, node = self._chance.choice(("status", "on", "on", "off", "cycle")), self._node()
        if self._by_command() and command in {"status", "on"}:
            self._doors.command("node", "power", command, node)
        else:
            self._doors.ask(f"power {command}", "PUT", f"/2/nodes/{node}/power", {"command": command})

    def _drain(self) -> None:
        role, node = self._chance.choice(("drained", "undrained", "undrained", "online")), self._node()
        self._doors.ask("role", "PUT", f"/2/nodes/{node}/role?force={int(self._chance.random() < 0.3)}", role)

    def _verify(self) -> None:
        self._doors.command(*self._chance.choice((("cluster", "verify"), ("status",), ("explain", self._node()))))

    def _tag(self) -> None:
        path = self._chance.choice(
            (f"/2/nodes/{self._node()}/tags", f"/2/instances/{self._instance()}/tags", "/2/tags")
        )
        method = self._chance.choice(("PUT", "PUT", "DELETE"))
        self._doors.ask("tag", method, f"{path}?tag=storm{self._chance.randint(1, 9)}")

    def _modify(self) -> None:
        limit = self._chance.randint(2, 8)
        self._chance.choice(
            (
                functools.partial(self._doors.ask, "modify", "PUT", "/2/modify", {"moves_per_node": limit}),
                functools.partial(
                    self._doors.ask, "modify", "POST", f"/2/nodes/{self._node()}/modify", {"ctotal": 32 + limit}
                ),
            )
        )()

    def _pause(self) -> None:
        reason = self._chance.choice(("", "", "", "the storm blows"))
        self._doors.ask("pause", "PUT", "/2/pause", {"reason": reason})

    def _play(self) -> None:
        node = self._node()
        self._chance.choice(
            (
                functools.partial(self._doors.play, "evacuate.yml", "-e", f"node={node}"),
                functools.partial(self._doors.play, "evacuate.yml", "-e", f"node={node}", "-e", "failover=true"),
                functools.partial(self._doors.play, "power.yml", "-e", "power=status"),
                functools.partial(self._doors.play, "power.yml", "-e", "power=off", "-e", f"nodes={node}"),
                functools.partial(self._doors.play, "power.yml", "-e", "power=on", "-e", f"nodes={node}"),
                functools.partial(self._doors.play, "diagnose.yml"),
            )
        )()


def states_of(node: Any) -> list[str]:
    """The instances that run on a node, by its files."""
    folder = node.root / "var/lib/roundsman/fake/running"
    return [path.stem for path in folder.glob("*.json")]
