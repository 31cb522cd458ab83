"""Play seeds: `python -m tests.simulation --seeds 100 [--from 1] [--seconds 30]`, or one with its trace: `--seed 7`."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import signal
import sys
from pathlib import Path

from tests.simulation import case, frequent, mutants, progress, shrink, trial


def main() -> None:
    """Play seeds until all are done, one fails, or time is up."""
    options = _options()
    with mutants.put_back(mutants.find(options.mutant)) if options.mutant else contextlib.nullcontext():
        _play(options)


def _play(options: argparse.Namespace) -> None:
    if options.case is not None:
        sys.exit(_one(case.load(options.case)))
    if options.seed is not None:
        sys.exit(_one(_made(options.seed, options)))
    done, signals = progress.Progress(options.first), _signals()
    try:
        for seed in range(options.first, options.first + options.seeds):
            if signals or (options.seconds and done.seconds > options.seconds):
                break
            with done.playing(seed):
                outcome = trial.play(_made(seed, options))
            done.add(outcome)
            if outcome.violations:
                _tell_failure(seed, outcome, options)
                sys.exit(1)
    except Ended:
        # A daemon that is being closed swallows it: then the seed is played to its end.
        pass
    print(f"{done.text()}; no invariant was violated{', and it was ended early' if signals else ''}", flush=True)
    sys.exit(128 + signals[0] if signals else 0)


class Ended(KeyboardInterrupt):
    """A person, or a program, ends all: no event loop catches this."""


def _signals() -> list[int]:
    """The signals that are to end all; each is raised where it comes."""
    heard: list[int] = []

    def end(number: int, _frame: object) -> None:
        heard.append(number)
        raise Ended

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return heard


def _made(seed: int, options: argparse.Namespace) -> case.Case:
    if options.frequent:
        return frequent.FREQUENT[options.mutant].of_seed(seed)
    return case.shaped(seed) if options.shaped else case.of_seed(seed, steps=options.steps)


def _tell_failure(seed: int, outcome: trial.Outcome, options: argparse.Namespace) -> None:
    print(f"seed {seed}: {'; '.join(outcome.violations)}")
    chosen = f" MUTANT={options.mutant}" if options.mutant else ""
    chosen += " FREQUENT=1" * options.frequent + " SHAPED=1" * options.shaped
    print(f"again, with its trace: make simulate SEED={seed} STEPS={options.steps}{chosen}", flush=True)
    made = _made(seed, options)
    if options.shrink:
        made = shrink.shrink(made, lambda smaller: bool(trial.play(smaller).violations), most=options.shrink)
    told = trial.play(made).violations
    folder = Path(".lab/simulation") / f"seed-{seed}"
    dataclasses.replace(made, text="; ".join(told), finds=options.mutant).save(folder)
    faults = ", ".join(made.faults) or "no fault"
    print(f"smaller, in {folder}: {len(made.steps)} steps and {faults}: {'; '.join(told)}")
    print(f"once it is fixed: mv {folder} tests/simulation/cases/NAME, and say in its text what it showed")


def _one(made: case.Case) -> int:
    outcome = trial.play(made)
    print("\n".join(outcome.lines))
    print(f"trace {outcome.trace}: {outcome.settled} jobs settled, {outcome.daemons} daemons, {outcome.seconds:.0f} s")
    for violation in outcome.violations:
        print(f"VIOLATION: {violation}")
    return bool(outcome.violations)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this seed only, and print its trace")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds are played (default: 100)")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed (default: 1)")
    parser.add_argument("--seconds", type=float, default=0.0, help="begin no seed after so many seconds")
    parser.add_argument("--steps", type=int, default=40, help="how much users do in each (default: 40)")
    parser.add_argument("--shrink", type=int, default=100, help="how often a smaller case is tried (default: 100)")
    parser.add_argument("--case", type=Path, help="play the case of this folder, and print its trace")
    parser.add_argument("--mutant", default="", help="with a bug of the past put back (tests/simulation/mutants.py)")
    parser.add_argument("--frequent", action="store_true", help="with the faults and steps that find that bug soon")
    parser.add_argument("--shaped", action="store_true", help="few kinds of steps and few faults, which are frequent")
    options = parser.parse_args()
    if options.frequent and options.mutant not in frequent.FREQUENT:
        parser.error(f"--frequent takes --mutant with one of {', '.join(frequent.FREQUENT)}")
    return options


if __name__ == "__main__":
    main()
