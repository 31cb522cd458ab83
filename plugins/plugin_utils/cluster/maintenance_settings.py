"""How a cluster is maintained: the settings that people choose, which `parameter_rules.py` checks."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Settings:
    """How the cluster is maintained; intervals in seconds, an interval of 0 turns its timer off.

    A storm is when the nodes that ask for evacuation are at least `storm_minimum` and more than `storm_fraction` of
    all; after an evacuation `capacity_reserve` instances of the standard size must still fit, 0 asks for none;
    `moves_per_node` limits how many instances move to or from one node at the same time; failovers from nodes that are
    not reachable, which copy nothing, are counted by themselves. Jobs that have not ended count, also those of people.
    With `balance` rounds balance the nodes that nothing
    else touches, by steps that lower Ganeti's score by `balance_threshold` or more; replicas of disks go to other nodes
    only with `balance_disk_moves`, and what instances really use of their CPUs counts with `balance_dynamic_load`. A
    `paused` text holds all rounds and says why, until `pause_ends` (unix seconds; 0: until a person ends it).

    Nodes are asked how they are every `diagnose_interval`: their agents at `agent_port`, or where that is 0 by a run of
    diagnose.yml.

    A node whose agent misses `dead_after` questions in a row may be dead: it is asked every 5 s once it has missed one.
    0 never asks. `dead_node_policy` says what then:
    `none` only tells it, `failover` starts its instances elsewhere once its BMC reads off, `fence` powers it off first.
    """

    diagnose_command: str = ""
    diagnose_interval: float = 60.0
    agent_port: int = 0
    round_interval: float = 300.0
    storm_fraction: float = 0.25
    storm_minimum: int = 3
    capacity_reserve: int = 0
    moves_per_node: int = 4
    power_off_evacuated: bool = False
    balance: bool = False
    balance_threshold: float = 0.1
    balance_disk_moves: bool = False
    balance_dynamic_load: bool = False
    accept_cluster_key: bool = False
    dead_after: int = 0
    dead_node_policy: str = "none"
    paused: str = ""
    pause_ends: float = 0.0

    def with_pause(self, reason: str, *, ends: float = 0.0) -> Settings:
        """The settings with this pause in the place of another one; without a `reason` there is none."""
        return replace(self, paused=reason, pause_ends=ends if reason else 0.0)

    def is_pause_over(self, *, now: float) -> bool:
        """Whether a pause stands whose time has come."""
        return bool(self.paused) and 0.0 < self.pause_ends <= now
