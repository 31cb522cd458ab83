"""Why a node is as it is, in sentences; pure, the time is a parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.values import capitals
from . import wording

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAUSED = "maintenance is paused"


def sentences(told: dict[str, Any], *, now: float) -> list[str]:
    """The daemon's explanation of a node in sentences, the operator's next step last; `now` in unix seconds."""
    busy = _busy(told)
    facts = [
        entry | {"text": capitals.capitalized(entry["text"])} for entry in (*told["moving"], *told["failed_disks"])
    ]
    about_instances = [_with_job(entry["text"], busy.get(entry["instance"])) for entry in (*facts, *told["degraded"])]
    return [
        *failing(told["failing"], now=now),
        *_state(told["node"], epo=told["epo"], interval=told["report_interval"], now=now),
        *_unheard(told),
        *_at_work(told["at_work"], now=now),
        *(f"{text}." for text in (*told["second_copies"], *about_instances, *told["kept"], *told["clock"])),
        *(_down(name, told["node"]["name"]) for name in told["down"]),
        *_silent(told["silent"], job=busy.get(told["node"]["name"])),
        *(_failover(failover) for failover in told["failovers"] if failover["instance"] not in busy),
        *(line for incident in told["incidents"] for line in _incident(incident, told, now=now)),
        *(_refusal(refusal, job=busy.get(refusal["subject"])) for refusal in told["refusals"]),
        *_planned(told["planned"]),
        *_next(told),
    ]


def incident_sentences(told: dict[str, Any], incident: dict[str, Any], *, missing: Iterable[int]) -> list[str]:
    """What comes of one incident, by the explanation of its node, and the next step; `missing` are jobs long ended."""
    uuid, busy = incident["uuid"], _busy(told)
    refusals = [refusal for refusal in told["refusals"] if refusal["incident"] == uuid]
    mine = {**told, "incidents": [incident], "refusals": refusals}
    return [
        *(f"Job {number} is not in the queue any more." for number in sorted(missing)),
        *(_refusal(refusal, job=busy.get(refusal["subject"])) for refusal in refusals),
        *_planned([job for job in told["planned"] if job["incident"] == uuid]),
        *_steps(list(_for_incidents(mine))),
    ]


def instance_sentences(told: dict[str, Any], *, now: float) -> list[str]:
    """Word what the daemon knows of an instance's replicas; `now` in unix seconds."""
    instance, parted, failover, moving = told["instance"], told["parted"], told["failover"], told["moving"]
    secondaries = wording.enumerated(instance["secondaries"])
    kept = f"; its secondary is {secondaries}" if secondaries else "; it has no secondary"
    lines = [*failing(told["failing"], now=now), f"{instance['name']} has its primary on {instance['primary']}{kept}."]
    lines += _at_work(told["at_work"], now=now)
    lines += [_replica(entry, now=now) for entry in told["replicas"]]
    if secondaries and not told["replicas"]:
        lines.append("No node has reported its replicas.")
    job = told["at_work"][0]["job"] if told["at_work"] else None
    found = (moving and moving["text"], told["split"], told["being_made"])
    begun = [capitals.capitalized(text) if text else "" for text in found]
    lines += [f"{_with_job(text, job)}." for text in (parted and parted["text"], *begun) if text]
    if told["not_outdated"] and job is None:
        lines.append(f"{told['not_outdated']}.")
    if told["broken_off"] is not None and job is None:
        lines.append(f"Job {told['broken_off']['job']} did not succeed: {told['broken_off']['text'].rstrip('.')}.")
    if told["is_down"]:
        lines.append(_down(instance["name"], instance["primary"]))
    lines += [f"{capitals.capitalized(_with_job(disk['text'], job))}." for disk in told["failed_disks"]]
    if told["at_work"]:
        return [*lines, *_wait(told["at_work"])]
    if failover is not None and failover["in_sync"]:
        loss = f"; {failover['loss']}" if failover["loss"] else ""
        lines.append(f"{instance['primary']} cannot be asked; the replica on {secondaries} counts as in sync{loss}.")
    elif failover is not None:
        lines += [f"It cannot fail over: {failover['reason']}.", f"What would unblock it: {failover['unblock']}."]
    steps = [capitals.capitalized(moving["step"])] if moving is not None else []
    steps += [_start(instance["name"])] if told["is_down"] else []
    steps += [capitals.capitalized(disk["step"]) for disk in told["failed_disks"]]
    steps += [capitals.capitalized(parted["step"])] if parted is not None else []
    return [*lines, *_steps(steps)]


def _at_work(jobs: list[dict[str, Any]], *, now: float) -> Iterator[str]:
    for job in jobs:
        age = wording.age(job["since"], now=now)
        yield f"Job {job['job']} has been at work on {job['subject']} for {age}: {job['what']}."


def _wait(jobs: list[dict[str, Any]]) -> list[str]:
    """What a person does about an object that jobs are changing: nothing yet."""
    return _steps([_until_ended(jobs)])


def _until_ended(jobs: list[dict[str, Any]]) -> str:
    numbers = list(dict.fromkeys(str(job["job"]) for job in jobs))
    return f"Wait until job {wording.enumerated(numbers)} has ended: `roundsman jobs watch {numbers[0]}`"


def _on_primaries(told: dict[str, Any]) -> list[dict[str, Any]]:
    """The jobs that are changing instances whose primary is the node; what fails them over needs the node as it is."""
    return [job for job in told["at_work"] if job["subject"] in told["node"]["primaries"]]


def _busy(told: dict[str, Any]) -> dict[str, int]:
    """The node and its instances (names) that jobs are changing, with the job; no step of a person is for them."""
    return {job["subject"]: job["job"] for job in reversed(told["at_work"])}


def _with_job(text: str, job: int | None) -> str:
    """A fact, and which job is at work on what it is about."""
    return text if job is None else f"{text}; job {job} is at it"


def _down(instance: str, node: str) -> str:
    return f"{instance} should run on {node}, and is down: by its newest report {node} has its disks down or secondary."


def _start(instance: str) -> str:
    return f"Start {instance}: `roundsman instance start {instance}`"


def _steps(steps: list[str]) -> list[str]:
    return ["What you do next:", *(f"  {step}" for step in steps)] if steps else []


def _replica(entry: dict[str, Any], *, now: float) -> str:
    if entry["unlisted"] is not None:
        age = wording.age(entry["unlisted"], now=now)
        return f"  {entry['node']}: {entry['resource']}: down, it is not in the report of {age} ago."
    fact, last = entry["fact"], entry["last_in_sync"]
    synced = "never seen in sync there" if last is None else f"last in sync {wording.age(last, now=now)} ago"
    if entry["unread"] is not None:
        return f"{_unread(entry, now=now)}; {synced}."
    if fact is None:
        return f"  {entry['node']}: {entry['resource']}: unknown; {synced}."
    state = f"{fact['role']}, {fact['connection']}, {fact['disk']}/{fact['peer_disk']}"
    age = wording.age(fact["reported"], now=now)
    return f"  {entry['node']}: {entry['resource']}: {state}, reported {age} ago; {synced}."


def _unread(entry: dict[str, Any], *, now: float) -> str:
    node, resource, unread = entry["node"], entry["resource"], entry["unread"]
    reason = unread["reason"] or f"run `drbdsetup status {resource}` there"
    age = wording.age(unread["reported"], now=now)
    return f"  {node}: {resource}: up, and it cannot be read on {node} (reported {age} ago): {reason}"


def failing(failures: Iterable[dict[str, Any]], *, now: float) -> Iterator[str]:
    """Word what fails in the daemon itself, each with its remedy."""
    for failure in failures:
        times = "once" if failure["times"] == 1 else f"{failure['times']} times"
        yield (
            f"roundsmand: {failure['part']} fails ({times}, first {wording.age(failure['since'], now=now)} ago): "
            f"{failure['text'].rstrip('.')}."
        )
        if failure["remedy"]:
            yield f"  Remedy: {failure['remedy']}."


def _state(node: dict[str, Any], *, epo: dict[str, Any] | None, interval: float | None, now: float) -> Iterator[str]:
    yield f"{node['name']}, in group {node['group']}, is {_role(node['role'])}; {_power(node, now=now)}."
    if node["refused"] is not None:
        yield f"Its newest report does not count ({node['refused']['reason']}): {node['refused']['text']}."
        yield "Nothing newer is known of its health."
    if node["health"] in {"off", "unknown"}:
        yield from _stale(node, now=now)
    elif node["problem"] is not None:
        text = f": {node['problem']['text']}" if node["problem"]["text"] else ""
        yield f"It cannot be diagnosed ({node['problem']['reason']}{text}). This is no sign of health."
    elif node["health"] is None:
        asked = (
            "Nobody asks it, because `diagnose_interval` is 0"
            if interval is None
            else f"It is asked every {interval:.0f} s"
        )
        yield f"It has not reported yet. This is no sign of health. {asked}."
    else:
        yield f"Its last report says {node['health']}."
    if node["diagnose_difference"] is not None:
        yield f"{node['diagnose_difference']}."
    if node["unreachable"] is not None and not node["offline"]:
        since = wording.age(node["unreachable"]["time"], now=now)
        yield f"It did not answer {since} ago: {node['unreachable']['text']}."
    yield from _agent(node, now=now)
    primaries = wording.enumerated(node["primaries"])
    replicas = wording.enumerated(node["secondaries"])
    # The record does not tell what runs.
    held = f"It is the primary of {primaries}" if primaries else "No instance has its primary here"
    yield f"{held}; it holds secondary replicas of {replicas}." if replicas else f"{held}."
    if node["left_behind"]:
        left = wording.enumerated(node["left_behind"])
        yield f"Replicas of {left} were left behind on it: it did not answer; a job removes them once it answers."
    if epo is not None:
        yield from _epo(node["name"], epo)


def _unheard(told: dict[str, Any]) -> Iterator[str]:
    # What a clock refuses is in the state.
    if told["unheard"] is not None and told["node"]["refused"] is None:
        yield f"{capitals.capitalized(told['unheard']['text'].rstrip('.'))}."


def _power(node: dict[str, Any], *, now: float) -> str:
    if node["lived_at"]:
        return f"it was known to be off, but showed {wording.age(node['lived_at'], now=now)} ago that it lives"
    if node["off_confirmed"]:
        since = wording.age(node["off_confirmed"], now=now)
        return f"it is off since {since} ago by the word of {node['off_stated_by'] or 'a person'}"
    return {True: "its power is on", False: "its power is off", None: "it has no BMC"}[node["powered"]]


def _stale(node: dict[str, Any], *, now: float) -> Iterator[str]:
    """What the last report said, which is not what is known now."""
    why = {"off": "it has no power"}.get(node["health"], "that is too old to count")
    if node["health"] == "unknown" and node["lived_at"]:
        why = "it is not asked until its power is known"
    elif node["health"] == "unknown" and node["offline"]:
        why = "it is offline and not asked"
    last = node["last_report"]
    if last is None:
        yield f"Its health is {node['health']}: {why.replace('that is too old to count', 'it has not reported')}."
        return
    when = "at a time in the future" if last["age"] < 0 else f"{wording.age(now - last['age'], now=now)} ago"
    yield f"Its health is {node['health']}: its last report said {last['said']} {when}, and {why}."


def _silent(verdict: dict[str, Any] | None, *, job: int | None) -> Iterator[str]:
    if verdict is None:
        return
    yield f"{_with_job(capitals.capitalized(verdict['reason']) + '; next: ' + verdict['step'], job)}."
    if verdict["unblock"] and job is None:
        yield f"What would unblock it: {verdict['unblock']}."


def _failover(verdict: dict[str, Any]) -> str:
    """Whether an instance of a node that cannot be asked may be started on its secondary."""
    name = verdict["instance"]
    if not verdict["in_sync"]:
        return f"{name} cannot fail over: {verdict['reason']}. What would unblock it: {verdict['unblock']}."
    loss = f"; {verdict['loss']}" if verdict["loss"] is not None else ""
    return f"{name} can fail over: its secondary counts as in sync{loss}."


def _agent(node: dict[str, Any], *, now: float) -> Iterator[str]:
    agent = node["agent"]
    if agent is None or node["offline"]:
        return
    if agent["misses"]:
        last = "has not answered since the daemon began"
        if agent["answered"]:
            last = f"answered {wording.age(agent['answered'], now=now)} ago"
        times = "once" if agent["misses"] == 1 else f"{agent['misses']} times"
        since = wording.age(agent["since"], now=now)
        yield f"Its agent has missed {times} in {since}, and {last}. Silence is no sign of health."
        if node["deaf"]:
            yield f"{capitals.capitalized(node['deaf'])}."
    elif agent["text"]:
        yield f"Its agent gives no report: {agent['text']}."
    if agent["misses"] or agent["text"]:
        yield _signed(node["last_report"], now=now)


def _signed(last: dict[str, Any] | None, *, now: float) -> str:
    """What answers at a node's address may be another machine: only a signed report comes from the node itself."""
    if last is None:
        return "No report with its signature has come yet."
    if last["age"] < 0:
        return "Its last report with its signature has a time in the future."
    return f"No report with its signature has come for {wording.age(now - last['age'], now=now)}."


def _epo(name: str, epo: dict[str, Any]) -> Iterator[str]:
    yield f"Maintenance is held: {epo['held']}."
    back = [*([name] if epo["returns"] else []), *epo["instances"]]
    yield f"Here is to return: {wording.enumerated(back)}." if back else "Nothing is to return here."


def _incident(incident: dict[str, Any], told: dict[str, Any], *, now: float) -> Iterator[str]:
    age = wording.age(incident["ctime"], now=now)
    reason = f", because {incident['reason']}" if incident["reason"] else ""
    stands = f"it came {age} ago and is {incident['repair-status']}{reason}"
    yield f"Incident {wording.short(incident['uuid'])} asks for {incident['action']}; {stands}."
    if incident["tag"] and incident["tag"] in told["node"]["tags"]:
        yield f"  The node carries its tag {incident['tag']}."
    known = {job["id"]: job for job in told["jobs"]}
    for number in incident["jobs"]:
        if number not in known:
            yield f"  Job {number} is not in the queue any more."
        else:
            yield f"  {_job(known[number], known)}"


def _job(job: dict[str, Any], known: dict[int, dict[str, Any]]) -> str:
    told = f"Job {job['id']} ({wording.job(job)}): {job['status']}"
    if job["text"]:
        return f"{told}: {job['text']}."
    waits = [str(other) for other, _ in job["depends"] if known.get(other, {}).get("status") not in wording.FINAL]
    if waits and job["status"] in wording.WAITING:
        return f"{told}, after job {wording.enumerated(waits)}."
    return f"{told}."


def _refusal(refusal: dict[str, Any], *, job: int | None) -> str:
    if job is not None:
        return f"Refused for {refusal['subject']}: {refusal['reason']}. Job {job} is at it."
    cure = f"What would unblock it: {refusal['unblock']}." if refusal["unblock"] else "Nothing would unblock it."
    return f"Refused for {refusal['subject']}: {refusal['reason']}. {cure}"


def _planned(planned: list[dict[str, Any]]) -> Iterator[str]:
    if planned:
        yield "The next round would do this:"
    for job in planned:
        yield f"  {job['reason']}."


def _next(told: dict[str, Any]) -> list[str]:
    epo, busy = (
        ["Return from the emergency power off: `roundsman cluster epo --on`"] if told["epo"] else [],
        _busy(told),
    )
    silent = [f"For its silence: {told['silent']['unblock']}"] if told["silent"] and told["silent"]["unblock"] else []
    degraded = [entry for entry in told["degraded"] if entry["instance"] not in busy]
    disks = [entry for entry in told["failed_disks"] if entry["instance"] not in busy]
    told_steps = [capitals.capitalized(entry["step"]) for entry in (*told["moving"], *disks, *degraded)]
    instances = [*map(_start, told["down"]), *told_steps]
    own = [] if told["node"]["name"] in busy else [*silent, *_for_incidents(told), *_for_node(told)]
    steps = list(dict.fromkeys([*epo, *own, *instances]))
    if not steps and told["failing"]:
        return [
            "What you do next:",
            "  Fix what fails in roundsmand (above); until then its view of the node may be old.",
        ]
    shown = (*told["degraded"], *told["failed_disks"], *told["failovers"])
    subjects = {told["node"]["name"], *(entry["instance"] for entry in shown)}
    held = busy.keys() & (subjects | (set(told["node"]["primaries"]) if told["by_hand"] else set()))
    if not steps and held:
        return _wait([job for job in told["at_work"] if job["subject"] in held])
    if not steps and told["node"]["health"] is None:
        return _steps(["Wait for its first report"])
    if not steps and told["node"]["primaries"]:
        return ["By its reports there is nothing for you to do. What runs on it: `roundsman cluster verify`"]
    return _steps(steps) or ["There is nothing for you to do."]


def _for_incidents(told: dict[str, Any]) -> Iterator[str]:
    tags = told["node"]["tags"]
    if not told["epo"] and any(refusal["reason"].startswith(PAUSED) for refusal in told["refusals"]):
        yield "Resume maintenance: `roundsman resume`"
    for incident in told["incidents"]:
        short, status = wording.short(incident["uuid"]), incident["repair-status"]
        if incident["tag"] in tags and status == "completed":
            yield f"Repair the node, then acknowledge: `roundsman incident ack {short}`"
        elif incident["tag"] in tags and status == "failed":
            yield from _failed(incident, told)
        elif status == "completed":
            yield f"Incident {short} is acknowledged; it is forgotten once the node reports something else."
        elif status == "canceled":
            yield f"Incident {short} is ignored until the node reports something else."
        else:
            yield f"{_waits(incident, told)}. To have it ignored: `roundsman incident cancel {short}`"


def _waits(incident: dict[str, Any], told: dict[str, Any]) -> str:
    short = wording.short(incident["uuid"])
    if any(job["id"] in incident["jobs"] and job["status"] not in wording.FINAL for job in told["jobs"]):
        return f"Wait: incident {short} is worked on"
    refused = [other for other in told["refusals"] if other.get("incident") == incident["uuid"]]
    if not refused:
        return f"Incident {short} waits for the next round"
    busy = _busy(told)
    idle = [other for other in refused if other["subject"] not in busy]
    if not idle:
        job = busy[refused[0]["subject"]]
        return f"Incident {short} waits, and job {job} is at it: `roundsman jobs watch {job}`"
    cures = dict.fromkeys(other["unblock"] for other in idle if other["unblock"])
    return f"Incident {short} waits; what would unblock it: {'; '.join(cures) or 'nothing'}"


def _failed(incident: dict[str, Any], told: dict[str, Any]) -> Iterator[str]:
    bad = [job for job in told["jobs"] if job["id"] in incident["jobs"] and job["status"] == "error"]
    if bad:
        yield f"See what went wrong: `roundsman jobs info {bad[0]['id']}`"
    node = told["node"]
    own = [job for job in told["at_work"] if job["subject"] == node["name"]]
    if at_work := [*own, *_on_primaries(told)]:
        yield _until_ended(at_work)
        return
    steps = [step for job in bad for step in job["opcodes"]]
    if node["powered"] and any(step["kind"] == "failover" and step["status"] == "error" for step in steps):
        yield f"Fence the node, so that its instances run nowhere: `roundsman node power off {node['name']} --force`"
    yield f"Fix the cause, then retry: `roundsman incident ack {wording.short(incident['uuid'])}`"


def _for_node(told: dict[str, Any]) -> Iterator[str]:
    node = told["node"]
    remedy = (told["unheard"] or {}).get("step") or (node["refused"] or {}).get("remedy")
    if remedy:
        yield capitals.capitalized(remedy)
    is_open = any(incident["repair-status"] in {"noted", "pending"} for incident in told["incidents"])
    is_failed = any(incident["repair-status"] == "failed" for incident in told["incidents"])
    # Where silent nodes are judged, the verdict has the next step.
    is_failing_over = bool(_on_primaries(told))
    step = told["by_hand"] if told["silent"] is None and not is_failing_over else None
    if step is not None:
        yield step
    if is_open:
        return
    if node["health"] == "unknown" and not node["offline"] and told["by_hand"] is None and not remedy:
        yield (
            "Find out why it sends no report: see `roundsman status` for a poll that fails, "
            "and look at its agent and its clock"
        )
    elif node["problem"] is not None:
        yield "Fix the node's diagnose command; until then its health is unknown."
    # Of one that has lived since the step or the verdict has the remedy.
    is_recorded_off = node["powered"] is False or node["off_confirmed"]
    is_in_service = not node["offline"] and not is_recorded_off
    if node["silent"] and is_in_service and step is None and not is_failing_over and told["unheard"] is None:
        off = f"power off {node['name']} --force" if node["powered"] else f"confirm-off {node['name']}"
        yield f"If it is dead, power it off before you set it offline: `roundsman node {off}`"
    if node["offline"] and node["powered"] is False and not node["lived_at"]:
        yield f"Power it on once it is repaired: `roundsman node power on {node['name']}`"
    if node["offline"]:
        yield f"Bring it back once it is repaired: `roundsman node online {node['name']}`"
    elif node["drained"] and not is_failed:
        yield f"Allow instances there again: `roundsman node undrain {node['name']}`"


def _role(role: str) -> str:
    words = {"master": "the master", "candidate": "a master candidate", "regular": "a regular node"}
    return words.get(role, role)
