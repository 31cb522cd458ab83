"""Bugs of this project's own history, put back while a simulation runs: it must find each of them."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from typing import TYPE_CHECKING, Any

from tests.chaos.mutants.mutant import PACKAGE, Edit, Mutant
from tests.simulation import of_leading, planted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FunctionType, ModuleType

RECOVERY = "daemon/jobs/recovery.py"
QUEUE = "daemon/jobs/queue.py"
PLAYS = "daemon/jobs/plays.py"
OPCODES = "daemon/jobs/opcodes.py"
SETTLING = "daemon/jobs/settling.py"
SCHEDULER = "daemon/jobs/scheduler.py"
CONFIGURATION = "daemon/configuration.py"
PROCESS = "daemon/jobs/opcode_process.py"
LOCKS = "daemon/locks/table_file.py"
FILES = "plugins/plugin_utils/durable_files.py"
REWRITING = "daemon/maintenance/rewriting.py"
DEAD_NODES = "daemon/maintenance/dead_nodes.py"
ROUNDS = "daemon/maintenance/rounds.py"
OUTCOMES = "daemon/maintenance/outcomes.py"
LIFECYCLE = "daemon/maintenance/lifecycle.py"
EVIDENCE = "plugins/plugin_utils/replica_evidence.py"

HISTORY = (
    Mutant(
        "lost_is_repeated",
        1,
        "a run that began and left no result is started again (ecbe013c)",
        (Edit(RECOVERY, "    if traces.has_begun or traces.result is Result.DAMAGED:\n", "    if is_canceling:\n"),),
    ),
    Mutant(
        "start_not_durable",
        2,
        "an opcode's process starts before the job says so on the disk (05f97308)",
        (
            Edit(
                PLAYS,
                "            await book.begin(job, index, is_durable=True,",
                "            await book.begin(job, index, is_durable=False,",
            ),
        ),
    ),
    Mutant(
        "locks_kept_after_restart",
        3,
        "a job that only waited when the daemon ended keeps its locks (e683de0b)",
        (
            Edit(
                QUEUE,
                "            if not owner.livelock and owner not in at_work:\n",
                "            if owner.livelock:\n",
            ),
        ),
    ),
    Mutant(
        "numbers_not_promised",
        4,
        "after a restart the numbers of a written plan are given to other jobs (1099ceed)",
        (
            Edit(
                QUEUE,
                "highest_id(), *submission.promised(self.jobs.values())])\n",
                "highest_id()])\n",
            ),
        ),
    ),
    Mutant(
        "seen_before_durable",
        5,
        "a configuration is seen before it is durable (090b2a8f)",
        (
            Edit(
                CONFIGURATION,
                "                await self._thread.write(write, self._path, version)\n",
                "                self._current = version\n                self._on_change()\n"
                "                await self._thread.write(write, self._path, version)\n",
            ),
        ),
    ),
    Mutant(
        "lost_not_looked_for",
        6,
        "after a lost run nobody looks where its instance is (57d4c876)",
        (Edit(PLAYS, "    if settlement.needs_look and step is not recovery.Step.START:\n", "    if loss:\n"),),
    ),
    Mutant(
        "cancel_forgotten",
        7,
        "a job that was canceled while it waited for its turn is canceled in memory only (05f97308)",
        (
            Edit(
                QUEUE,
                "self._book.change(job_id, rule))",
                "self._book.change(job_id, rule, is_durable=_is_running(self.jobs[job_id])))",
            ),
        ),
    ),
    Mutant(
        "slot_kept",
        8,
        "who is canceled while it waits for a slot keeps the place of the slot (ce255f36)",
        (
            Edit(
                SCHEDULER,
                "            self._slots[entry.lane].discard(entry.number)\n            self.look()\n",
                "            self.look()\n",
            ),
        ),
    ),
    Mutant(
        "lines_not_synced",
        9,
        "a recorded change is acknowledged before the disk has it (05f97308)",
        (
            Edit(
                FILES,
                "  # noqa: TRY301 - taken back like any other\n        sync(descriptor, path)\n",
                "\n",
            ),
        ),
    ),
    Mutant(
        "changes_of_failed_dropped",
        10,
        "what a run recorded before it failed or was lost is not committed (05f97308)",
        (
            Edit(
                SETTLING,
                "    await ports.configuration.commit(applicable, by=by)\n",
                "    await ports.configuration.commit(applicable if settlement.succeeded else lambda _: [], by=by)\n",
            ),
        ),
    ),
    Mutant(
        "plan_not_written",
        11,
        "an opcode that submits jobs plans again after a crash (1099ceed)",
        (
            Edit(
                OPCODES,
                "        if is_repeated:\n            jobs = self._ports.store.plan(job, index)\n",
                "        if current.canceling:\n            jobs = self._ports.store.plan(job, index)\n",
            ),
        ),
    ),
    Mutant(
        "names_not_synced",
        12,
        "a new content is acknowledged before the disk has its name (5d12a876)",
        (
            Edit(
                FILES,
                "            if not for_this_boot:\n                _sync_names(folder, path)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "failed_sync_forgotten",
        13,
        "after a failed sync the next daemon relies on what the kernel shows",
        (
            Edit(
                REWRITING,
                "    if not failed:\n        return\n",
                "    if not failed or not read_only.reason:\n        return\n",
            ),
        ),
    ),
    Mutant(
        "run_folder_not_synced",
        14,
        "a run has begun though a loss of power may take its folder (found by the simulation)",
        (Edit(PROCESS, "    durable_files.sync_folder(run.parent)\n", ""),),
    ),
    Mutant(
        "look_not_settled",
        15,
        "what a look has recorded is dropped where its daemon ended (found by the simulation)",
        (
            Edit(
                SETTLING,
                "    if process.traces(folder).has_begun:\n",
                "    if not folder.name:\n",
            ),
        ),
    ),
    Mutant(
        "full_disk_ends_start",
        17,
        "a full disk while stale locks are freed, which nobody waits for, ends the daemon (0980d8e2)",
        (
            Edit(
                LOCKS,
                "        except errors.StoreFailed as error:\n",
                "        except errors.StoreFailed as error:\n"
                "            if not self._writing:\n"
                "                raise\n",
            ),
        ),
    ),
    Mutant(
        "locks_not_awaited",
        32,
        "an opcode goes on with locks that are not on the disk yet (found in review)",
        (
            Edit(
                OPCODES,
                "less urgent gets that meanwhile.\n        await self._ports.desk.written(values.lock_owner(job))\n",
                "less urgent gets that meanwhile.\n",
            ),
        ),
    ),
    Mutant(
        "commands_forgotten",
        18,
        "after a restart a second job commands a silent node (1e9c7a96)",
        (Edit(DEAD_NODES, "        self._commands = self._given_before()\n", "        self._commands = {}\n"),),
    ),
    Mutant(
        "return_unnoticed",
        19,
        "the incident of a dead node that comes back goes on (da09d564)",
        (
            Edit(
                LIFECYCLE,
                "    if seen.has_come_back(incident):\n",
                "    if seen.has_come_back(incident) and is_observed is None:\n",
            ),
        ),
    ),
    Mutant(
        "lost_move_fails",
        20,
        "a move that ended with the controller fails its incident (419d0c08)",
        (
            Edit(
                OUTCOMES,
                "    return _is_lost(job, opcode) or _is_refused(opcode) or _is_unfenced(opcode)\n",
                "    return _is_refused(opcode) or _is_unfenced(opcode)\n",
            ),
        ),
    ),
    Mutant(
        "round_overtaken",
        21,
        "a round starts though jobs of the last one are not in the queue yet (bdcb4d04)",
        (Edit(ROUNDS, "        if not is_settled:\n", "        if not has_heard and not is_settled:\n"),),
    ),
    Mutant(
        "word_taken_back",
        22,
        "a report of its secondary takes back that a primary writes alone (4cdbc6a9)",
        (
            Edit(
                EVIDENCE,
                "        word=_own_word(instance, known.tracks.get(source), source),\n",
                "        word=_own_word(instance, known.tracks.get(target), source),\n",
            ),
        ),
    ),
    Mutant(
        "refused_move_fails",
        31,
        "a move that is refused before it begins fails its incident (25ef291e)",
        (
            Edit(
                OUTCOMES,
                "    return _is_lost(job, opcode) or _is_refused(opcode) or _is_unfenced(opcode)\n",
                "    return _is_lost(job, opcode) or _is_unfenced(opcode)\n",
            ),
        ),
    ),
    Mutant(
        "read_only_relies_on_disk",
        30,
        "a daemon that is read-only does not write again what a failed sync left (found by the simulation)",
        (
            Edit(
                REWRITING,
                "    if not failed:\n        return\n",
                "    if not failed or read_only.reason:\n        return\n",
            ),
        ),
    ),
)

MUTANTS = (*HISTORY, *planted.PLANTED, *of_leading.OF_LEADING)


@contextlib.contextmanager
def put_back(mutant: Mutant) -> Iterator[None]:
    """Have a bug in all that runs as long as this lasts: each function of its files has the mutant's code."""
    with contextlib.ExitStack() as undo:
        for function, code in _replaced(mutant):
            undo.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = code
        yield


def changed(mutant: Mutant) -> list[str]:
    """The functions that do something else while a bug is put back."""
    return [function.__qualname__ for function, code in _replaced(mutant) if _does(function.__code__) != _does(code)]


def _replaced(mutant: Mutant) -> Iterator[tuple[FunctionType, CodeType]]:
    for path in sorted({edit.path for edit in mutant.edits}):
        real = importlib.import_module(f"{PACKAGE}.{path.removesuffix('.py').replace('/', '.')}")
        mutated = dict(_functions(mutant.module(path)))
        for name, function in _functions(real):
            yield function, mutated[name].__code__


def _does(code: CodeType) -> tuple[object, ...]:
    """What a function does, wherever its lines are."""
    consts = tuple(_does(const) if inspect.iscode(const) else const for const in code.co_consts)
    return code.co_code, code.co_names, consts


def _functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """The functions of a module and of its classes, by their qualified names."""
    for owner in (module, *(found for found in vars(module).values() if inspect.isclass(found))):
        if owner is not module and owner.__module__ != module.__name__:
            continue
        for found in vars(owner).values():
            function: Any = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
            function = function.fget if isinstance(function, property) else function
            # What a decorator has made calls the function that was written.
            function = inspect.unwrap(function) if inspect.isfunction(function) else function
            if (
                inspect.isfunction(function)
                and function.__module__ == module.__name__
                and not _is_made(function.__code__)
            ):
                yield function.__qualname__, function


def _is_made(code: CodeType) -> bool:
    """Whether a decorator or a dataclass has made it."""
    return code.co_filename.startswith("<") or bool({*code.co_freevars} - {"__class__"})


def find(name: str) -> Mutant:
    """The mutant of this name; raises StopIteration where there is none."""
    return next(mutant for mutant in MUTANTS if mutant.name == name)
