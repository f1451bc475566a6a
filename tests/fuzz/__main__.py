"""Break inputs of every target for a while: seeded, with a corpus that grows by what is new; or with atheris.

Prints executions per target and the seed. A finding is written to a file, and the exit code is not 0.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import subprocess
import sys
import time
import traceback
from importlib.util import find_spec
from pathlib import Path
from random import Random

if __name__ == "__main__":  # by hand it runs without an installed package
    ROOT = Path(__file__).parents[2]
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from fuzz.target import Target, broken, spliced

CORPUS_MAX = 300
SAMPLES = 8
"""Valid inputs that the corpus of a target starts with."""


def all_targets() -> tuple[Target, ...]:
    from fuzz import coordinators, door, further_doors, gossip, http_door, links, metadata, sasl, stored, wire

    doors = (
        *door.TARGETS,
        *further_doors.TARGETS,
        *http_door.TARGETS,
        *links.TARGETS,
        *metadata.TARGETS,
        *sasl.TARGETS,
    )
    return (*wire.TARGETS, *gossip.TARGETS, *stored.TARGETS, *coordinators.TARGETS, *doors)


class Finding(Exception):
    """An input that did what none may do."""

    def __init__(self, target: Target, content: bytes) -> None:
        super().__init__(target.name)
        self.target = target
        self.content = content


class Campaign:
    """The seeded loop over one target: valid inputs, broken ones, and those that led somewhere new."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        self._rng = Random(f"{target.name}/{seed}")
        self._corpus = [target.make(self._rng) for _ in range(SAMPLES)]
        self.outcomes: dict[str, int] = {}
        self.executions = 0

    def run(self, seconds: float) -> None:
        """Until the time is over."""
        stop = time.monotonic() + seconds
        self.run_rounds(1)
        while time.monotonic() < stop:
            self.run_rounds(20)

    def run_rounds(self, count: int) -> None:
        """The valid inputs first, then so many others."""
        for content in self._corpus[: 0 if self.executions else SAMPLES]:
            self.execute(content)
        for _ in range(count):
            self.execute(self._next())

    def _next(self) -> bytes:
        rng = self._rng
        chance = rng.random()
        if chance < 0.4:
            content = self.target.make(rng)
            return content if chance < 0.15 else broken(content, rng)
        content = rng.choice(self._corpus)
        if rng.random() < 0.2:
            content = spliced(content, rng.choice(self._corpus), rng)
        return broken(content, rng)

    def execute(self, content: bytes) -> None:
        self.executions += 1
        try:
            outcome = self.target.read(content)
        except BaseException as error:
            raise Finding(self.target, content) from error
        if outcome not in self.outcomes and len(self._corpus) < CORPUS_MAX:
            self._corpus.append(content)
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1


def save(finding: Finding, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    name = f"{finding.target.name}-{hashlib.sha256(finding.content).hexdigest()[:12]}"
    (directory / name).write_bytes(finding.content)
    return directory / name


def run_seeded(targets: list[Target], seconds: float, seed: int, directory: Path) -> int:
    print(f"seed {seed}")
    for target in targets:
        campaign = Campaign(target, seed)
        try:
            campaign.run(seconds / len(targets))
        except Finding as finding:
            traceback.print_exc()
            path = save(finding, directory)
            print(f"{target.name}: a finding after {campaign.executions} executions, its input is in {path}")
            return 1
        print(
            f"{target.name:18} {campaign.executions:9,} executions, {len(campaign.outcomes):4} outcomes",
            flush=True,
        )
    return 0


def run_atheris(targets: list[Target], seconds: float, seed: int, directory: Path) -> int:
    """Each target in a process of its own, because atheris never gives one back."""
    directory.mkdir(parents=True, exist_ok=True)
    worst = 0
    for target in targets:
        words = ["--engine", "atheris-one", "--target", target.name, "--seed", str(seed)]
        words += ["--seconds", str(max(1, int(seconds / len(targets)))), "--findings", str(directory)]
        done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=False)
        last = [line for line in done.stderr.splitlines() if line.startswith(("Done ", "#"))][-1:]
        print(f"{target.name:18} {' '.join(last)}")
        if done.returncode:
            print(done.stdout[-4000:], done.stderr[-4000:], sep="\n")
            worst = 1
    return worst


def run_atheris_one(target_name: str, seconds: float, seed: int, directory: Path) -> int:
    import atheris

    with atheris.instrument_imports(include=["penstock"]):
        [target] = [one for one in all_targets() if one.name == target_name]
    corpus = directory / "corpus" / target.name
    corpus.mkdir(parents=True, exist_ok=True)
    rng = Random(f"{target.name}/{seed}")
    for number in range(SAMPLES):
        (corpus / f"sample-{number}").write_bytes(target.make(rng))
    flags = [
        f"-max_total_time={int(seconds)}",
        f"-seed={seed + 1}",
        f"-artifact_prefix={directory}/{target.name}-",
    ]

    def one(content: bytes) -> None:
        target.read(content)

    atheris.Setup([sys.argv[0], *flags, str(corpus)], one)
    atheris.Fuzz()
    return 0


def hush() -> None:
    """What the broker logs about broken input is not what anybody wants to read here."""
    logger = logging.getLogger("penstock")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description="Broken bytes for everything that reads bytes.")
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", help="only this one")
    parser.add_argument("--engine", choices=("auto", "seeded", "atheris", "atheris-one"), default="auto")
    parser.add_argument("--findings", type=Path, default=Path(".cache/fuzz"), help="where inputs are kept")
    parser.add_argument("--input", type=Path, help="read this one file instead, as --target says")
    options = parser.parse_args()
    hush()
    if options.engine == "atheris-one":
        return run_atheris_one(options.target, options.seconds, options.seed, options.findings)
    targets = [one for one in all_targets() if options.target in (None, one.name)]
    if not targets:
        parser.error(
            f"no target is called {options.target}; there are {', '.join(one.name for one in all_targets())}"
        )
    if options.input is not None:
        print(targets[0].read(options.input.read_bytes()))
        return 0
    engine = options.engine
    if engine == "auto":
        engine = "atheris" if find_spec("atheris") else "seeded"
    runner = run_atheris if engine == "atheris" else run_seeded
    return runner(targets, options.seconds, options.seed, options.findings)


if __name__ == "__main__":
    sys.exit(main())
