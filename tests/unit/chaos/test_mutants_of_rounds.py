"""Each mutant of the rounds is found by a test that the default suite has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.mutants import rounds
from tests.simulation import mutants
from tests.unit.plugins.plugin_utils.rounds import test_deaths, test_overtaken, test_room, test_waves

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.mutants.mutant import Mutant


def _where_a_pause_holds() -> None:
    test_overtaken.test_an_evacuation_that_is_held_takes_nothing_back_however_often_its_node_asks(
        test_overtaken.HELD[0]
    )


FOUND_BY: dict[str, Callable[[], None]] = {
    "memory_between_untaken": test_room.test_where_an_instance_only_runs_for_a_while_its_memory_is_taken_too,
    "disk_of_jobs_untaken": test_room.test_what_an_unfinished_job_moves_takes_its_room_on_both_sides,
    "reserve_of_jobs_untaken": test_room.test_where_a_job_may_leave_an_instance_in_between_its_room_is_taken_too,
    "one_job_of_each_node": test_waves.test_unfinished_jobs_have_their_places_in_chains,
    "urgent_jobs_uncounted": (
        test_waves.test_unfinished_failovers_off_a_dead_node_keep_urgent_ones_in_their_slots_and_hold_others_back
    ),
    "urgent_behind_copies": test_waves.test_urgent_moves_wait_for_each_other_only,
    "copies_beside_urgent": test_waves.test_whatever_is_not_urgent_waits_for_the_last_urgent_moves_at_its_nodes,
    "one_job_of_each_instance": (
        test_overtaken.test_what_reads_from_a_node_that_is_off_is_overtaken_unless_a_job_before_it_fails_over
    ),
    "queues_of_people_hold": test_deaths.test_what_was_ordered_by_hand_and_has_not_begun_holds_no_failover,
    "failover_for_evacuation": (test_overtaken.test_a_failover_off_a_dead_node_is_done_before_its_target_is_evacuated),
    "jobs_before_forgotten": (
        test_overtaken.test_what_reads_from_a_node_that_is_off_is_overtaken_unless_a_job_before_it_fails_over
    ),
    "running_step_taken_back": test_overtaken.test_a_step_that_runs_is_not_overtaken_but_one_after_it_is,
    "jobs_of_people_taken_back": (test_overtaken.test_what_would_go_to_a_node_that_is_to_be_evacuated_is_overtaken),
    "held_evacuation_takes_back": _where_a_pause_holds,
    "booting_node_failed_over": (
        test_overtaken.test_a_failover_is_overtaken_once_its_node_is_not_known_to_be_off_any_more
    ),
    "start_on_a_dead_node": test_overtaken.test_a_start_is_overtaken_once_the_primary_is_off,
}


@pytest.mark.parametrize("mutant", rounds.MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_is_found(mutant: Mutant) -> None:
    finds = FOUND_BY[mutant.name]
    finds()
    with mutants.put_back(mutant), pytest.raises(AssertionError):
        finds()
