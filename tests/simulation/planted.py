"""Bugs that people planted who had not read the simulation; `mutants.py` puts them back as those of the past."""

from __future__ import annotations

from tests.chaos.mutants.mutant import Edit, Mutant

BOOK = "daemon/jobs/book.py"
DESK = "daemon/locks/desk.py"
QUEUE = "daemon/jobs/queue.py"
STORE = "daemon/jobs/store.py"
ROUNDS = "daemon/maintenance/rounds.py"
LEADING = "daemon/maintenance/leading.py"
READINGS = "daemon/maintenance/power_readings.py"
REPORTS = "daemon/maintenance/reports.py"
SETTLING = "daemon/jobs/settling.py"

PLANTED = (
    Mutant(
        "locks_of_plays_dropped",
        16,
        "a restart drops the locks of plays by hand (planted)",
        (
            Edit(
                DESK,
                "        if owner.livelock and not _may_live(Path(owner.livelock)):\n",
                "        if owner.livelock:\n",
            ),
        ),
    ),
    Mutant(
        "book_before_disk",
        24,
        "a job's change counts before it is on the disk, and after a refused write, too (planted)",
        (
            Edit(
                BOOK,
                "        await self._store.write(job)\n",
                "        self.jobs[job.id] = job\n        await self._store.write(job)\n",
            ),
            Edit(BOOK, "self._replace(job if now is before else rule(now))", "self._replace(now)"),
        ),
    ),
    Mutant(
        "running_by_status",
        25,
        "a job that is being canceled while its opcode runs does not count as running (planted)",
        (
            Edit(
                QUEUE,
                "    return any(opcode.status is values.Status.RUNNING for opcode in job.opcodes)\n",
                "    return job.status is values.Status.RUNNING\n",
            ),
        ),
    ),
    Mutant(
        "lone_job_unsynced",
        26,
        "the name of a job that is written alone is not durable (planted)",
        (
            Edit(
                STORE,
                "            self._sync_names()\n"
                "        except (OSError, errors.StoreFailed) as error:\n"
                "            for folder in made:\n",
                "                self._sync_names()\n"
                "        except (OSError, errors.StoreFailed) as error:\n"
                "            for folder in made:\n",
            ),
        ),
    ),
    Mutant(
        "plan_of_silence",
        27,
        "a plan is kept though other nodes are silent now (planted)",
        (
            Edit(
                ROUNDS,
                "        facts = (at_work, jobs, silent, evidence, recovered, unstarted, exhausted)\n",
                "        facts = (at_work, jobs, evidence, recovered, unstarted, exhausted)\n",
            ),
        ),
    ),
    Mutant(
        "reader_failed",
        28,
        "BMCs whose reader failed are never read again (planted)",
        (
            Edit(
                READINGS,
                "            self._failures.recovered(PART)\n        except (errors.RoundsmanError,",
                "            for uuid in left.values():\n"
                "                self._answered(uuid, batch[uuid], power.State.UNKNOWN, began=began)\n"
                "            self._failures.recovered(PART)\n        except (errors.RoundsmanError,",
            ),
            Edit(
                READINGS,
                "        finally:\n"
                "            for uuid in left.values():\n"
                "                self._answered(uuid, batch[uuid], power.State.UNKNOWN, began=began)\n"
                "\n    def _answered",
                "\n    def _answered",
            ),
        ),
    ),
    Mutant(
        "off_dated_anew",
        29,
        "since when a node is off is dated again by the wall clock at every look (planted)",
        (
            Edit(
                REPORTS,
                "            uuid: self._offs[uuid]\n"
                "            if uuid in self._offs and self._offs[uuid].wall == at\n"
                "            else dataclasses.replace(now.earlier(max(0.0, now.wall - at)), wall=at)\n",
                "            uuid: dataclasses.replace(now.earlier(max(0.0, now.wall - at)), wall=at)\n",
            ),
        ),
    ),
    Mutant(
        "isolated_fences",
        30,
        "a controller that reaches less than half of the nodes has the silent ones powered off (planted)",
        (
            Edit(
                LEADING,
                "    return 2 * len(voting & _obeying(own, follows, serial)) >= len(voting)\n",
                "    return bool(follows)\n",
            ),
        ),
    ),
    Mutant(
        "rest_of_run_lives",
        39,
        "a run is settled while a module that outlived its play may still act (planted)",
        (Edit(SETTLING, "it ends first.\n    await process.end_run(run)\n", "it ends first.\n"),),
    ),
    Mutant(
        "reading_outlives_silence",
        40,
        "what a BMC read before a sign of life of its node still counts (planted)",
        (
            Edit(
                READINGS,
                "        return self.alive_at == later.alive_at and self.since in {0, later.since}\n",
                "        return self.name == later.name\n",
            ),
        ),
    ),
)
