"""The mutants of rounds that begin beside unfinished jobs: each forgets something that those use, hold or wait for."""

from __future__ import annotations

from tests.chaos.mutants.mutant import Edit, Mutant

ROUNDS = "plugins/plugin_utils/rounds"
ROOM, WAVES = f"{ROUNDS}/room.py", f"{ROUNDS}/waves.py"
UNFINISHED, OVERTAKEN = f"{ROUNDS}/unfinished.py", f"{ROUNDS}/overtaken.py"

MUTANTS = (
    Mutant(
        "memory_between_untaken",
        1,
        "no memory is taken where a job leaves its instance for a while",
        (
            Edit(
                ROOM,
                "        for uuid in _others((station.primary_node,) for station in stations):\n",
                "        for uuid in _others((station.primary_node,) for station in (instance, last)):\n",
            ),
        ),
    ),
    Mutant(
        "disk_of_jobs_untaken",
        2,
        "no disk is taken for the replica that a job makes",
        (
            Edit(
                ROOM,
                "            self.nodes[uuid].disk -= disk\n            self.nodes[uuid].instances += 1\n        keeps",
                "            self.nodes[uuid].instances += 1\n        keeps",
            ),
        ),
    ),
    Mutant(
        "reserve_of_jobs_untaken",
        3,
        "nothing is reserved for what would start where a job leaves its instance",
        (
            Edit(
                ROOM,
                "        for pair in _others(_pairs(station) for station in stations):\n",
                "        for pair in _others(_pairs(station) for station in stations[:1]):\n",
            ),
        ),
    ),
    Mutant(
        "one_job_of_each_node",
        4,
        "of the unfinished jobs at a node only the last has a place in its waves",
        (
            Edit(
                WAVES,
                "[entry for entry in row if entry[0] not in job.depends] + [(job.number, None)]\n",
                "[(job.number, None)]\n",
            ),
        ),
    ),
    Mutant(
        "urgent_jobs_uncounted",
        5,
        "an unfinished failover off a dead node has the place of a copy",
        (
            Edit(
                WAVES,
                "            rows = self._urgent if job.number in claims.urgent else self._admitted\n",
                "            rows = self._admitted\n",
            ),
        ),
    ),
    Mutant(
        "urgent_behind_copies",
        6,
        "a failover off a dead node waits for what copies at its nodes",
        (
            Edit(
                WAVES,
                "            row = (self._urgent if urgent else self._admitted).setdefault(node, [])\n",
                "            row = self._admitted.setdefault(node, [])\n",
            ),
        ),
    ),
    Mutant(
        "copies_beside_urgent",
        7,
        "what copies does not wait for the failovers off a dead node at its nodes",
        (
            Edit(
                WAVES,
                "            found |= dict(ahead if urgent else (*ahead, *self._urgent.get(node, [])))\n",
                "            found |= dict(ahead)\n",
            ),
        ),
    ),
    Mutant(
        "one_job_of_each_instance",
        8,
        "of the unfinished jobs of an instance only the last counts",
        (
            Edit(
                UNFINISHED,
                "                found[uuid] = (*found.get(uuid, ()), job)\n",
                "                found[uuid] = (job,)\n",
            ),
        ),
    ),
    Mutant(
        "queues_of_people_hold",
        9,
        "a job by hand that is not at work holds the failover of its instance up",
        (
            Edit(
                UNFINISHED,
                "    return tuple(job for job in jobs if job.incident is not None or job.is_running or not _are_gone"
                "(cluster, job))\n",
                "    return tuple(jobs)\n",
            ),
        ),
    ),
    Mutant(
        "failover_for_evacuation",
        10,
        "a failover off a dead node is taken back because its target is to be evacuated",
        (
            Edit(
                OVERTAKEN,
                "_reason(cluster, now, job, frozenset() if job.number in claims.urgent else left)\n",
                "_reason(cluster, now, job, left)\n",
            ),
        ),
    ),
    Mutant(
        "jobs_before_forgotten",
        11,
        "a job is judged by where its instance is, and not by where the jobs before it leave it",
        (
            Edit(
                OVERTAKEN,
                "unfinished.stations(cluster, instance, held_by[:place])[-1]\n",
                "unfinished.stations(cluster, instance, held_by[:0])[-1]\n",
            ),
        ),
    ),
    Mutant(
        "running_step_taken_back",
        12,
        "a step that runs is taken back",
        (
            Edit(
                OVERTAKEN,
                "        if place or not job.is_running:\n",
                "        if place >= 0:\n",
            ),
        ),
    ),
    Mutant(
        "jobs_of_people_taken_back",
        13,
        "what a person has submitted is taken back",
        (
            Edit(
                OVERTAKEN,
                "            if why and job.incident is not None:\n",
                "            if why:\n",
            ),
        ),
    ),
    Mutant(
        "held_evacuation_takes_back",
        14,
        "an evacuation that is held takes jobs of others back each time its node asks",
        (
            Edit(
                OVERTAKEN,
                "        if goes_on or incident.is_of_a_dead_node:\n",
                "        if is_held:\n",
            ),
        ),
    ),
    Mutant(
        "booting_node_failed_over",
        15,
        "a queued failover stays though its node is not known to be off any more, and fails its incident",
        (
            Edit(
                OVERTAKEN,
                "            why = _returns(cluster, job, revived)\n",
                "            why = _returns(cluster, job, {})\n",
            ),
        ),
    ),
    Mutant(
        "start_on_a_dead_node",
        16,
        "a queued start stays though its node has died, and fails its incident",
        (
            Edit(
                OVERTAKEN,
                "        if place or not job.is_running:\n",
                "        if (place or not job.is_running) and target:\n",
            ),
        ),
    ),
)
