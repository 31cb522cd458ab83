"""Which controller leads: the vote with which the daemon starts, and the questions while it serves.

The rules are `daemon/maintenance/leading.py`; why they are so: docs/decisions/who-leads.md.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
import random
import re
import secrets
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.agent import epochs
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import controller_epoch, log_output, unsynced, voting
from .. import audit
from ..failures import Failures
from . import barrier, by_record, electorate, leading, parts
from .barrier import Barrier
from .electorate import Electorate, boots_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ...plugins.module_utils.domain.power import power
    from ...plugins.module_utils.domain.values import tree
    from ...plugins.plugin_utils.cluster import cluster as clusters
    from ..configuration import Configuration
    from .electorate import OverSsh

LOG = logging.getLogger(__name__)
RETRY = 5.0
"""About how many seconds later the nodes are asked again, where so many are silent that nobody can lead."""
EVERY = 60.0
"""Seconds from one round of questions to the next, while the daemon serves."""
LEAST = 5.0
"""The same, where nodes have refused orders since."""
AGAIN = 600.0
"""Seconds before a daemon that serves begins one more epoch because some nodes follow another one."""
MOST_BEFORE = 20
"""How many epochs of before a new one names at the most, whose runs go on."""
FRESH = 5.0
"""Seconds for which the answers by which silent nodes may be fenced count."""
ENDING_SECONDS = 1.0
"""How long the daemon stays to tell the nodes that it ends."""
AGENTS = "ansible-playbook -i INVENTORY playbooks/node_agent.yml"
SHOWN = 5


@dataclass(frozen=True)
class Statement:
    """What a person says with this start: nobody votes now; no newer configuration exists.

    With `master` that node (UUID) takes the role over from the one on record, which is off if `is_master_off`.
    """

    no_voting: bool = False
    is_restored: bool = False
    master: str = ""
    is_master_off: bool = False


@dataclass(frozen=True)
class _Start:
    """What a start does by the answers of the nodes; `record` is what the folder's file says, `own` its own epoch."""

    voter: leading.Candidate
    step: leading.Step
    verdict: leading.Verdict
    poll: voting.Poll
    record: controller_epoch.Record | None
    own: leading.Own | None
    is_unvoted: bool
    """Whether no node has an agent that votes."""
    is_over_ssh: bool
    """Whether the nodes were asked over SSH instead."""

    @property
    def is_unasked(self) -> bool:
        """Whether nothing shows that the controller does not work from which another node is to take the role over."""
        return self.is_unvoted and self.voter.me != self.voter.master and not self.voter.takes_over

    def is_takeover(self, is_here: Callable[[controller_epoch.Record], bool]) -> bool:
        """Whether steps of another controller may still be at work; `is_here` says whose record it is.

        Nodes that are not asked over SSH either cannot answer that none is, and are not waited for.
        """
        if self.is_unvoted and not self.is_over_ssh:
            return False
        is_copy = self.record is not None and not is_here(self.record)
        is_unknown = self.record is None and not self.voter.voters
        is_moved = self.voter.me != self.voter.master
        return is_copy or is_unknown or is_moved or leading.is_takeover(self.voter, _votes(self.poll))


class Leadership(parts.Part):
    """The epoch of this daemon: begun with `begin`, and offered again to all nodes while `run` works."""

    name = "leadership"
    retried = "with the next questions to the nodes"

    def __init__(
        self,
        where: tree.Tree,
        configuration: Configuration,
        *,
        is_at_work: Callable[[], bool],
        failures: Failures | None = None,
        reported: Callable[[str], str] = lambda _: "",
        read_power: Callable[[Mapping[str, str]], AsyncIterator[power.Outcome]] | None = None,
        over_ssh: OverSsh | None = None,
    ) -> None:
        super().__init__(failures or Failures())
        self._where = where
        self._configuration = configuration
        self._is_at_work = is_at_work
        self._reported = reported
        self._barrier = Barrier(configuration, epoch=lambda: self.epoch, read_power=read_power)
        self._kept: epochs.Kept | None = None
        self._electorate = Electorate(where, configuration, barrier=self._barrier, over_ssh=over_ssh)
        self._confirmed: dict[str, str] = {}
        self._writing = asyncio.Lock()
        self._again_at = -math.inf
        self._is_doubtful = False
        self._is_after_boot = False
        self._asked = asyncio.Event()
        self._asked.set()
        self._reached: tuple[float, voting.Poll] = (-math.inf, voting.Poll())
        self.refused = 0
        """How many opcodes failed because a node follows another epoch."""

    @property
    def epoch(self) -> epochs.Epoch | None:
        """The epoch in which this daemon leads; None before it has begun."""
        return self._kept.epoch if self._kept is not None else None

    async def begin(self, statement: Statement, *, on_wait: Callable[[str], None]) -> None:
        """Begin an epoch, or go on in the one of before; returns once this controller leads.

        Where too few nodes answer it waits, and says why with `on_wait`.

        Raises:
            NotLeading: another controller leads, or knows more.
            StoreFailed, StateUnknown: the epoch cannot be read or written.
        """
        told = ""
        while True:
            step, reason = await self._try(statement)
            if step in {leading.Step.GO_ON, leading.Step.BEGIN}:
                return
            if step is leading.Step.END:
                raise errors.NotLeading(reason)
            if reason != told:
                told = reason
                on_wait(reason)
            # Two that started together do not ask together again.
            await asyncio.sleep(RETRY * random.SystemRandom().uniform(0.5, 1.5))

    async def preview(self, statement: Statement) -> tuple[leading.Step, list[str]]:
        """What a start with this statement does by the answers of the nodes, and the lines that say so; nothing is."""
        start = await self._decide(statement, asks_all=True)
        verdict, names = start.verdict, _names(self._configuration.current)
        change = f"; what would change that: {verdict.unblock}"
        if start.is_unasked:
            return leading.Step.GO_ON, ["no node has an agent that votes"]
        if start.step is leading.Step.GO_ON and start.own is not None:
            return start.step, [f"it would go on in {start.own.epoch}, in which it led before"]
        if start.step is leading.Step.WAIT:
            return start.step, [f"it would wait: {verdict.reason}{change}"]
        if start.step is leading.Step.END:
            return start.step, [f"it would end with exit status 11: {verdict.reason}{change}"]
        number = self._number(start)
        voters, answers = start.voter.voters, start.poll.answers
        if start.is_unvoted and not start.is_over_ssh:
            return start.step, [f"no node has an agent that votes: it would lead in epoch {number} without asking them"]
        lines = [
            f"it would offer epoch {number} to the {len(answers)} nodes that answer, and lead once "
            + (f"more than half of the {len(voters)} that vote have promised" if voters else "that is written")
        ]
        if lost := leading.lost_versions_text(start.voter, _votes(start.poll), names):
            lines.append(lost)
        if start.is_takeover(self._is_here):
            lines.append(
                "another controller led before: no instance is touched before each of its nodes follows this one"
            )
        return start.step, lines

    async def take_over(self, statement: Statement) -> tuple[leading.Step, str]:
        """Ask the nodes once, and begin an epoch if they let; returns what was done, or why nothing was."""
        return await self._try(statement)

    async def _try(self, statement: Statement) -> tuple[leading.Step, str]:
        """Ask the nodes once, and do what their answers let do; returns what was done, or why nothing was."""
        start = await self._decide(statement)
        if start.is_unasked:
            return leading.Step.GO_ON, ""
        if start.step is leading.Step.GO_ON and start.own is not None:
            self._go_on(start.own, self._configuration.current, start.verdict)
            if start.is_unvoted:
                # Boots that agents have said before do not count.
                await self._remember()
        elif start.step is leading.Step.BEGIN:
            done = await self._offer(start)
            if done[0] is leading.Step.BEGIN:
                self._audit(statement, start)
                lost = leading.newer_versions(start.voter, _votes(start.poll))
                await self._configuration.go_on_above(max((kept.serial for kept in lost.values()), default=0))
            return done
        return start.step, f"{start.verdict.reason}; what would change that: {start.verdict.unblock}"

    async def _decide(self, statement: Statement, *, asks_all: bool = False) -> _Start:
        """What a start does by the answers of the nodes, which are asked once; of all, or of as many as it takes."""
        cluster, record = self._configuration.current, controller_epoch.read(self._where)
        here = record if record is not None and self._is_here(record) else None
        master = cluster.cluster.master_node
        nodes = [node for node in self._electorate.reachable() if not (statement.is_master_off and node.uuid == master)]
        voters = nodes if cluster.maintenance.settings.agent_port else []
        own = self._own(here) if not statement.master else None
        self._electorate.known = record.voters if record is not None else frozenset()
        self._barrier.waits = here.waits if here is not None else frozenset()
        if self._kept is None:
            self._barrier.forget_statements()
        self._confirmed = dict(here.boots) if here is not None and not statement.no_voting else {}
        candidate = leading.Candidate(
            me=statement.master or master,
            master=master,
            serial=cluster.serial_no,
            voters=frozenset(node.uuid for node in voters),
            own=here.ids if here is not None else frozenset(),
            led=here.order.epoch if here is not None and here.order is not None else None,
            is_restored=statement.is_restored,
            takes_over=statement.is_master_off,
        )
        names, uptime = _names(cluster), _uptime()
        # What a person says is audited with what it costs, which any node may be the only one to know.
        waits_for_all = asks_all or statement != Statement()

        asked = voters

        def able(poll: voting.Poll) -> frozenset[str]:
            # A new machine does not know who has voted: where anybody follows a controller, all others may.
            is_led = any(kept is not None for kept in poll.follows.values())
            if statement.master and not statement.is_master_off and is_led:
                return frozenset(candidate.voters)
            return self._electorate.able(asked, poll)

        def decided(poll: voting.Poll) -> tuple[leading.Candidate, leading.Step, leading.Verdict]:
            now = dataclasses.replace(candidate, voters=frozenset() if statement.no_voting else able(poll))
            if here is not None and here.boot != unsynced.boot():
                now = leading.disowned(now, _votes(poll), uptime=uptime)
            return (now, *leading.decide(now, _votes(poll), own=own, names=names))

        def is_enough(poll: voting.Poll) -> bool:
            is_most = 2 * len(poll.answers) > len(able(poll))
            return is_most and not waits_for_all and decided(poll)[1] is not leading.Step.WAIT

        poll = await self._electorate.ask(voters, seconds=electorate.DEADLINE, is_enough=is_enough)
        is_unvoted = self._electorate.is_unvoted = self._electorate.has_no_votes(voters, poll) or _led_without_votes(
            record, poll
        )
        is_stated = statement.no_voting or statement.is_master_off
        is_over_ssh = is_unvoted and is_stated and self._electorate.can_ask_over_ssh
        if is_over_ssh:
            asked, poll = nodes, await self._electorate.ask_over_ssh(nodes)
        if is_unvoted and not is_over_ssh:
            voter = dataclasses.replace(candidate, voters=frozenset())
            step, verdict = by_record.decide(record, is_here=here is not None, is_stated=is_stated)
            own = self._own_by_record(here) if not statement.master else own
        else:
            voter, step, verdict = decided(poll)
        return _Start(voter, step, verdict, poll, record, own, is_unvoted=is_unvoted, is_over_ssh=is_over_ssh)

    def _audit(self, statement: Statement, start: _Start) -> None:
        """Log what a person said with this start, by which this controller leads now."""
        said = [
            word
            for word, is_said in (("--no-voting", statement.no_voting), ("--restored", statement.is_restored))
            if is_said
        ]
        if said and self.epoch is not None:
            lost = leading.lost_versions_text(start.voter, _votes(start.poll), _names(self._configuration.current))
            audit.LOG.info(
                "daemon %s: %s",
                log_output.account(),
                "; ".join(filter(None, [f"started with {' '.join(said)}, and leads in {self.epoch}", lost])),
            )

    def _is_here(self, record: controller_epoch.Record) -> bool:
        return record.place == controller_epoch.place(self._where)

    def _own(self, here: controller_epoch.Record | None) -> leading.Own | None:
        """The epoch in which this controller led before, in this boot."""
        if here is None or here.order is None or here.boot != unsynced.boot():
            return None
        return leading.Own(here.order.epoch, self._is_at_work(), has_offered=bool(here.offered))

    def _own_by_record(self, here: controller_epoch.Record | None) -> leading.Own | None:
        """The epoch in which this controller led before, in any boot: nobody votes.

        While this machine was off a person may have replaced it, so nodes are asked once after a boot.
        """
        if here is None or here.order is None:
            return None
        if here.boot != unsynced.boot():
            self._is_doubtful = self._is_after_boot = True
            self._asked.clear()
        return leading.Own(here.order.epoch, self._is_at_work(), has_offered=bool(here.offered))

    def _go_on(self, own: leading.Own, cluster: clusters.Cluster, verdict: leading.Verdict) -> None:
        self._kept = epochs.Kept(own.epoch, cluster.cluster.master_node, cluster.serial_no)
        why = "its opcodes still run" if own.is_at_work else verdict.reason
        LOG.info("this controller goes on in %s, in which it led before it restarted: %s", own.epoch, why)

    def _number(self, start: _Start) -> int:
        # A node that is silent keeps no number as far as anybody knows: the few that answer are not more than half.
        silent = {node.uuid: None for node in self._electorate.reachable() if node.uuid not in start.poll.unable}
        shown = [None if kept is None else kept.epoch for kept in {**silent, **start.poll.follows}.values()]
        return leading.number(start.record.highest if start.record is not None else None, shown)

    async def _offer(self, start: _Start) -> tuple[leading.Step, str]:
        """Have the nodes that answered promise to follow a new epoch; it is used once enough of them have."""
        candidate, poll, own, number = start.voter, start.poll, start.own, self._number(start)
        if number > epochs.HIGHEST:
            return leading.Step.END, (
                f"more than half of the nodes claim to follow epoch {epochs.HIGHEST}, and there is none above it; what "
                "would change that: var/lib/roundsman/leader.json removed on them, once it is known why"
            )
        offered = epochs.Epoch(number, _new_id())
        if start.is_takeover(self._is_here):
            self._barrier.raise_for(frozenset(self._configuration.current.nodes) - self._electorate.unable(poll))
        if poll.answers or not start.is_unvoted:
            # With the offer: if it is in vain, the nodes that keep it do not show any more who led before.
            await asyncio.to_thread(controller_epoch.remember, self._where, offered, waits=self._barrier.waits)
        goes_on = frozenset({own.epoch.id}) if own is not None and own.is_at_work else frozenset()
        if self._kept is not None:
            # It serves: plays by hand are at work, too.
            before = self._kept.goes_on if len(self._kept.goes_on) < MOST_BEFORE else frozenset()
            goes_on = frozenset({self._kept.epoch.id, *before})
        kept = epochs.Kept(offered, candidate.me, candidate.serial, goes_on)

        def is_enough(given: voting.Poll) -> bool:
            return 2 * len(_promised(given, offered) & candidate.voters) > len(candidate.voters) > 0

        nodes = [node for node in self._electorate.reachable() if node.uuid in poll.answers]
        if start.is_over_ssh:
            given = await self._electorate.ask_over_ssh(nodes, self._electorate.offer(kept, boots=boots_of(poll)))
        else:
            given = await self._electorate.ask(
                nodes, seconds=electorate.DEADLINE, question=self._electorate.offer(kept), is_enough=is_enough
            )
        promised = _promised(given, offered)
        if candidate.voters and not leading.is_promised(candidate, _votes(poll), promised):
            refusals = sorted({answer.refusal for answer in given.answers.values() if answer.refusal})
            return leading.Step.WAIT, (
                f"{len(promised & candidate.voters)} of {len(candidate.voters)} nodes that vote promised to follow "
                f"{offered}{': ' if refusals else ''}{'; '.join(refusals[:3])}; the nodes are asked again"
            )
        # The boots were read before more than half promised to follow this epoch.
        known = frozenset[str]() if start.is_unvoted else poll.answers.keys()
        await self._write(kept, known=known, boots=boots_of(poll))
        self._kept = kept
        if start.is_unvoted:
            LOG.info("this controller leads in %s; no node has an agent that votes", offered)
            return leading.Step.BEGIN, ""
        LOG.info(
            "this controller leads in %s: %d nodes promised to follow it, of which %d of %d vote",
            offered,
            len(promised),
            len(promised & candidate.voters),
            len(candidate.voters),
        )
        if self._electorate.unable(poll):
            LOG.warning("%d nodes have no agent that can vote", len(self._electorate.unable(poll)))
        return leading.Step.BEGIN, ""

    def note_refusal(self, text: str) -> None:
        """An opcode failed; if a node follows another epoch that counts, and the nodes are asked soon.

        They are, too, where a node has booted.
        """
        if epochs.is_of_other_boot(text):
            self.wake()
        if epochs.is_refusal(text):
            self.refused += 1
            self._is_doubtful = True
            self._failures.failed(
                self.name,
                f"a node refused what this controller orders: {text}",
                remedy="the nodes are asked whom they follow; stop the daemon of the controller that should not lead",
            )
            self.wake()

    async def run(self) -> None:
        """Offer the epoch again to all nodes, for as long as this controller leads.

        Raises:
            NotLeading: more than half of the nodes that vote follow another controller.
        """
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            self._awake.clear()
            try:
                await self.step()
            except errors.NotLeading:
                raise
            except (errors.RoundsmanError, OSError) as error:
                self._failures.failed(self.name, error, remedy=f"fix the cause; it is retried {self.retried}")
            await asyncio.sleep(max(0.0, began + LEAST - loop.time()))
            try:
                async with asyncio.timeout_at(began + EVERY):
                    await self._awake.wait()
            except TimeoutError:
                continue

    async def step(self) -> None:
        """Ask all nodes once whom they follow, and have those follow this controller that do not yet.

        Raises:
            NotLeading: as `run`.
        """
        cluster, voters = self._configuration.current, self._electorate.voters()
        if self._kept is not None and self._kept.serial != cluster.serial_no:
            self._kept = dataclasses.replace(self._kept, serial=cluster.serial_no)
        poll = await self._offered(voters)
        self._electorate.is_unvoted = self._electorate.still_has_no_votes(voters, poll)
        if self._electorate.is_unvoted:
            await self._remember()
            await self._look_over_ssh()
            return
        self._asked.set()
        able = self._electorate.able(voters, poll)
        names = _names(cluster)
        if (found := leading.successor(self.epoch, poll.follows, able, serial=cluster.serial_no)) is not None:
            raise errors.NotLeading(_replaced_text(found, self.epoch, serial=cluster.serial_no))
        await self._remember(poll.answers.keys())
        await self._confirm()
        lost = leading.strays(self.epoch, poll.follows)
        if lost and await self._begin_again(poll):
            self._failures.recovered(self.name)
            return
        obeying = self._electorate.able_to_obey(voters, poll)
        isolation = leading.isolation_text(self.epoch, obeying, poll.follows, serial=cluster.serial_no, names=names)
        if lost:
            self._failures.failed(
                self.name,
                self._strays_text(lost),
                remedy="stop the daemon of the controller that should not lead; this one begins an epoch above once "
                "these nodes have not heard of the other one for three minutes",
            )
        elif isolation:
            self._failures.failed(
                self.name,
                f"{isolation}: the fault may be here",
                remedy="restore the network between this controller and the nodes; silent nodes are powered off by "
                "themselves only once half of those answer whose BMCs do not read off",
            )
        elif poll.deaf:
            self._failures.failed(
                self.name,
                f"the agents of {', '.join(sorted(poll.deaf)[:SHOWN])} take no question from this machine",
                remedy=f"apply the role from here, which gives them the master's address: `{AGENTS}`; or restore the "
                "cluster's key",
            )
        else:
            self._failures.recovered(self.name)

    def _strays_text(self, lost: Mapping[str, epochs.Kept]) -> str:
        names = _names(self._configuration.current)
        shown = ", ".join(f"{names[uuid]} follows {kept.epoch}" for uuid, kept in sorted(lost.items())[:SHOWN])
        return f"{len(lost)} nodes refuse what this controller orders in {self.epoch}: {shown}"

    async def _look_over_ssh(self) -> None:
        """Ask all nodes over SSH whom they follow, from the first refusal on until none refuses any more.

        So it is once after this machine has booted, too. Nothing is offered: other nodes may not know yet of the
        controller that leads.

        Raises:
            NotLeading: more nodes follow another controller than this one, or after a boot as many.
        """
        if not self._is_doubtful:
            self._failures.recovered(self.name)
            return
        poll = await self._electorate.ask_over_ssh(self._electorate.reachable())
        if text := by_record.replaced_text(self.epoch, poll.follows, has_booted=self._is_after_boot):
            raise errors.NotLeading(text)
        self._asked.set()
        if lost := leading.strays(self.epoch, poll.follows):
            self._failures.failed(
                self.name,
                self._strays_text(lost),
                remedy="stop the daemon of the controller that should not lead; if it is the other one, start this one "
                f"with `{leading.NO_VOTING}`, so that these nodes follow it",
            )
        elif poll.answers:
            if self._is_after_boot and self._kept is not None:
                # With the boot, so that the next start in it need not ask.
                await self._write(self._kept, known=(), boots={})
            self._is_doubtful = self._is_after_boot = False
            self._failures.recovered(self.name)

    async def _begin_again(self, poll: voting.Poll) -> bool:
        """Begin an epoch above what some nodes keep, if the votes let; returns whether this controller has.

        What runs goes on. A node that claims more each time gets another one after minutes only.
        """
        now = asyncio.get_running_loop().time()
        record = await asyncio.to_thread(controller_epoch.read, self._where)
        if self._kept is None or record is None or now < self._again_at:
            return False
        if not leading.is_held_up(self.epoch, record.ids, _votes(poll)):
            return False
        start = await self._decide(Statement(), asks_all=True)
        lost = leading.strays(self.epoch, start.poll.follows).values()
        is_above = all(kept.epoch.number < self._number(start) for kept in lost)
        if start.step is not leading.Step.BEGIN or not is_above:
            return False
        if not self._may_fence(start.voter.voters, start.poll):
            self._barrier.forget_statements()
        step, reason = await self._offer(start)
        # Nodes that have promised refuse the epoch of before, or follow the new one at the next round.
        self.wake()
        if step is leading.Step.BEGIN:
            self._again_at = now + AGAIN
            return True
        LOG.warning("this controller could not begin an epoch above what nodes keep: %s", reason)
        return False

    async def isolation(self, off: Collection[str]) -> str:
        """Why this controller may not command the power of silent nodes now; '' where it may.

        All nodes are asked, unless that was a few seconds ago; `off` are those (UUIDs) whose BMCs read off.
        """
        voters, clock = self._electorate.voters(), asyncio.get_running_loop().time

        def may_fence(poll: voting.Poll) -> bool:
            return self._may_fence(self._electorate.able_to_obey(voters, poll), poll, off=off)

        at, poll = self._reached
        if clock() - at > FRESH or not may_fence(poll):
            try:
                poll = await self._electorate.ask(
                    voters,
                    seconds=electorate.ROUND_SECONDS,
                    question=self._electorate.offer(self._kept),
                    is_enough=may_fence,
                )
            except (errors.RoundsmanError, OSError) as error:
                return f"the nodes that vote cannot be asked ({error})"
            self._reached = clock(), poll
        names = _names(self._configuration.current)
        able = self._electorate.able_to_obey(voters, poll)
        serial = self._configuration.current.serial_no
        text = leading.isolation_text(self.epoch, able, poll.follows, serial=serial, off=off, names=names)
        if text:
            self.wake()
        return text

    async def _offered(self, nodes: Sequence[clusters.Node], *, seconds: float | None = None) -> voting.Poll:
        """Offer this daemon's epoch to these nodes."""
        return await self._electorate.offer_to(nodes, self._kept, seconds=seconds)

    async def _offered_over_ssh(self, nodes: Sequence[clusters.Node]) -> None:
        poll = await self._electorate.offer_over_ssh(nodes, self._kept)
        if leading.strays(self.epoch, poll.follows):
            # No step reaches them that they could refuse.
            self._is_doubtful = True
            self.wake()

    def _may_fence(self, voters: AbstractSet[str], poll: voting.Poll, *, off: Collection[str] = ()) -> bool:
        serial = self._configuration.current.serial_no
        return leading.may_fence(self.epoch, voters, poll.follows, serial=serial, off=off)

    async def _remember(self, known: Collection[str] = (), boots: Mapping[str, str] | None = None) -> None:
        """Keep durably what steps name and a start needs, where that has changed: `_write`."""
        kept = self._kept
        if kept is None:
            return
        is_known = self._electorate.known >= set(known) and self._barrier.still(kept.epoch) == self._barrier.waits
        if not is_known or self._with_boots(boots or {}) != self._confirmed:
            await self._write(kept, known=known, boots=boots or {})

    async def _write(self, kept: epochs.Kept, *, known: Collection[str], boots: Mapping[str, str]) -> None:
        """Write an epoch in which this controller leads, with more nodes (UUIDs) that vote, and confirmed boots.

        On which nodes steps of another controller may still be at work goes with it.
        """
        async with self._writing:
            voters, waits = self._electorate.known | set(known), self._barrier.still(kept.epoch)
            confirmed = self._with_boots(boots)
            order = epochs.Order(kept.epoch, kept.master, kept.serial)
            await asyncio.to_thread(
                controller_epoch.write, self._where, order, voters=voters, waits=waits, boots=confirmed
            )
            self._electorate.known, self._barrier.waits, self._confirmed = voters, waits, confirmed

    def _with_boots(self, boots: Mapping[str, str]) -> dict[str, str]:
        """The boots that steps name, with these; without agents nobody can say that a node has booted."""
        cluster = self._configuration.current
        if self._electorate.is_unvoted or not cluster.maintenance.settings.agent_port:
            return {}
        return {uuid: boot for uuid, boot in {**self._confirmed, **boots}.items() if boot and uuid in cluster.nodes}

    async def _confirm(self) -> None:
        """Have steps name the boots in which nodes have answered, if half of those that vote still obey afterwards.

        A node that was fenced and boots again may follow this controller still, though the others follow another one.
        """
        learned = dict(self._electorate.boots)
        if self._kept is None or self._with_boots(learned) == self._confirmed:
            return
        voters, off = self._electorate.voters(), self._electorate.recorded_off()

        def obey(poll: voting.Poll) -> bool:
            others = poll.answers.keys() & {node.uuid for node in off}
            return self._may_fence(self._electorate.able_to_obey(voters, poll) | others, poll)

        def is_enough(poll: voting.Poll) -> bool:
            return not off and obey(poll)

        poll = await self._electorate.ask(
            voters, seconds=electorate.ROUND_SECONDS, question=self._electorate.offer(self._kept), is_enough=is_enough
        )
        poll.answers |= (await self._electorate.ask_recorded_off()).answers
        if obey(poll):
            await self._remember(boots=learned)

    async def clear(self, instances: Collection[str], nodes: Collection[str], *, asks_all: bool = False) -> None:
        """Let no opcode touch these instances (UUIDs) before no step of another controller can be at work on them.

        Another controller led before this one: each node of them, and each of `nodes` (UUIDs), has to follow this epoch
        and to have no step at work on them, or to be off since this epoch began. It is asked again for a while. With
        `asks_all` all of them are asked once whether they have booted, not only those that report another boot.

        Raises:
            Refused: that is not so; the text names the node, and what helps.
        """
        await self._wait_asked()
        touched = self._barrier.touched(instances, nodes)
        has_booted = {uuid for uuid in touched if asks_all or self._has_booted(uuid)}
        asked = [node for node in self._electorate.voters() if node.uuid in has_booted]
        await self._offered(asked, seconds=electorate.DEADLINE if asks_all else None)
        ask = self._offered_over_ssh if self._electorate.is_unvoted else self._offered
        await self._barrier.wait(instances, nodes, ask=ask, keep=self._remember)
        if self._barrier.waits:
            await self._remember()
        if any(self._electorate.boots.get(uuid, "") not in {"", self._confirmed.get(uuid)} for uuid in touched):
            await self._confirm()

    async def _wait_asked(self) -> None:
        """Wait until nodes without agents have been asked whom they follow, once after this machine has booted."""
        try:
            async with asyncio.timeout(barrier.SECONDS):
                await self._asked.wait()
        except TimeoutError:
            raise errors.Refused(
                "this machine has booted, and the nodes have not been asked yet whether another controller leads "
                "since: retry in a minute"
            ) from None

    def _has_booted(self, uuid: str) -> bool:
        """Whether a node reports another boot than the one that steps on it name."""
        confirmed = self._confirmed.get(uuid, "")
        return bool(confirmed) and self._reported(uuid) not in {"", confirmed}

    async def confirm_boots(self, nodes: Collection[str]) -> set[str]:
        """Ask these nodes (UUIDs) for their boots, and have steps name them: a play has just powered the nodes on.

        Returns those of which it is not known that steps name the boots in which they are.
        """
        asked = [node for node in self._electorate.voters() if node.uuid in set(nodes)]
        if self._kept is None or not self._confirmed:
            return set()
        poll = await self._offered(asked)
        await self._confirm()
        return {node.uuid for node in asked if boots_of(poll).get(node.uuid) != self._confirmed.get(node.uuid)}

    async def end(self) -> None:
        """Tell the nodes that this daemon ends, so that another controller need not wait; silence costs nothing."""
        if self._kept is None:
            return
        nodes = [node for node in self._electorate.voters() if node.uuid in self._electorate.boots]
        try:
            await self._electorate.ask(
                nodes, seconds=ENDING_SECONDS, question=self._electorate.offer(self._kept, ends=True)
            )
        except (errors.RoundsmanError, OSError) as error:
            LOG.info("the nodes do not know that this daemon ends: %s", error)


def _replaced_text(found: epochs.Kept, own: epochs.Epoch | None, *, serial: int) -> str:
    """Why a controller ends whose nodes follow another one, or a clone of its machine."""
    if found.epoch == own:
        return (
            f"more than half of the nodes that vote know version {found.serial} of the configuration, and this "
            f"controller, which leads in the same {own}, has version {serial}: a clone of its machine leads; end one "
            "of the two machines"
        )
    return (
        f"more than half of the nodes that vote follow {found.epoch} of another controller, and this controller led in "
        f"{own}; stop that controller before this one is started again"
    )


def _names(cluster: clusters.Cluster) -> dict[str, str]:
    return {node.uuid: node.name for node in cluster.nodes.values()}


def _votes(poll: voting.Poll) -> dict[str, leading.Vote]:
    """What nodes (UUIDs) answered, as votes."""
    return {uuid: leading.Vote(answer.follows, answer.heard) for uuid, answer in poll.answers.items()}


def _promised(poll: voting.Poll, offered: epochs.Epoch) -> set[str]:
    return {uuid for uuid, kept in poll.follows.items() if kept is not None and kept.epoch == offered}


def _led_without_votes(record: controller_epoch.Record | None, poll: voting.Poll) -> bool:
    """Whether the controller of this record has led, nobody has ever voted, and nobody does now.

    A node that is off without anybody having recorded that is silent, and has no agent for all that.
    """
    return record is not None and record.order is not None and not record.voters and not poll.answers


def _uptime() -> float:
    """The seconds since this machine booted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _new_id() -> str:
    """A random id that begins with the name of this machine, for those who read it."""
    host = re.sub("[^0-9a-z-]", "-", socket.gethostname().partition(".")[0].lower())
    return f"{host[:32]}-{secrets.token_hex(8)}"
