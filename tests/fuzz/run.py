"""``make fuzz``: throw inputs at everything that reads bytes, for as long as you like.

    python -m tests.fuzz.run --runs 2000000 --jobs 2              # messages, then records
    python -m tests.fuzz.run --target records --runs 20000000
    python -m tests.fuzz.run --target messages .cache/fuzz/messages-0123…      # one input again

A target is a module of ``kraftspec.conformance.fuzz.targets``: ``messages`` (decode of every
message and version) and ``records`` (batches, columns, scanner, compression, CRC).
Where atheris is installed (Linux; the dependency group ``fuzz``) libFuzzer follows the coverage of
our code from golden vectors on; ``--engine random`` changes vectors at random instead. Findings are
kept in ``.cache/fuzz``; each becomes a test in ``test_fuzz_short.py``. Exit code 1 when there are.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import FunctionType, ModuleType
from typing import Any

from kraftspec.conformance.fuzz.targets import TARGETS, TWINS_ONE_IN, BrokenError, inputs, target
from kraftspec.fastpath import crc32c_implementation, native

ROOT = Path(__file__).resolve().parents[2]
FINDINGS = ROOT / ".cache" / "fuzz"
MEMORY_MB_MAX = 1024  # All modules and the corpus take some 300 MB; an input may not take 700.
INPUT_SECONDS_MAX = 10  # For what hangs; what is slow is for ``target.check`` to say.
FINDINGS_MAX = 20  # A worker stops after so many: one mistake has many inputs.


def main() -> int:
    """Run the engine that is asked for, or one file; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], prog="make fuzz")
    parser.add_argument("--target", choices=TARGETS, action="append", help="default: each")
    parser.add_argument("files", nargs="*", type=Path, help="run these inputs, nothing else")
    parser.add_argument("--runs", type=int, default=2_000_000, help="inputs, of all jobs together")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--engine", choices=("auto", "atheris", "random"), default="auto")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.target or TARGETS
    if options.files:
        for path in options.files:
            taken = target(names[0]).check(path.read_bytes(), 1)
            print(f"{path}: {'taken' if taken else 'refused'}")
        return 0
    if options.worker is not None:
        return work(names[0], options.engine, options.runs, options.seed, options.worker)
    if options.engine == "auto":
        has_atheris = importlib.util.find_spec("atheris") is not None
        options.engine = "atheris" if has_atheris else "random"
    seed = Random().getrandbits(31) if options.seed is None else options.seed
    print(f"{native.describe()}; {crc32c_implementation()}")
    codes = [lead(name, options.engine, options.runs, options.jobs, seed) for name in names]
    return max(codes)


def lead(name: str, engine: str, runs: int, jobs: int, seed: int) -> int:
    """Start the workers of a target, and sum up what they report."""
    FINDINGS.mkdir(parents=True, exist_ok=True)
    known = set(FINDINGS.iterdir())
    started = time.perf_counter()
    print(f"{engine}: {runs:,} inputs for {name}, {jobs} jobs, seed {seed}")
    with tempfile.TemporaryDirectory() as directory:
        corpus = Path(directory)
        workers = []
        for job in range(jobs):
            command = [sys.executable, "-m", "tests.fuzz.run", "--target", name]
            command += ["--engine", engine, "--runs", str(-(-runs // jobs))]
            command += ["--seed", str(seed + job)]
            command += ["--worker", str(corpus / str(job))]
            log = (corpus / f"{job}.log").open("w+")
            worker = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
            workers.append((worker, log))
        total = failed = 0
        for worker, log in workers:
            failed += worker.wait() != 0
            log.seek(0)
            text = log.read()
            log.close()
            counted = re.findall(r"number_of_executed_units: *(\d+)", text)
            total += int(counted[-1]) if counted else 0
            if worker.returncode:
                print(text[-4000:])
    seconds = time.perf_counter() - started
    findings = sorted(set(FINDINGS.iterdir()) - known)
    print(
        f"{total:,} inputs in {seconds:.0f} s, {total / seconds:,.0f} a second: "
        f"{len(findings)} findings" + "".join(f"\n  {path.relative_to(ROOT)}" for path in findings)
    )
    return 1 if findings or failed or total < runs else 0


def work(name: str, engine: str, runs: int, seed: int, corpus: Path) -> int:
    """Do one worker's share."""
    if engine == "atheris":
        return work_atheris(name, runs, seed, corpus)
    return work_random(name, runs, seed)


def work_random(name: str, runs: int, seed: int) -> int:
    """Change the target's seeds at random."""
    chosen = target(name)
    limit = MEMORY_MB_MAX << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    source = inputs(chosen, Random(seed), list(chosen.seeds()))
    data = next(source)
    findings = count = 0
    while count < runs and findings < FINDINGS_MAX:
        count += 1
        taken = False
        try:
            taken = chosen.check(data, TWINS_ONE_IN)
        except BrokenError as error:
            findings += 1
            keep(name, data, error)
        data = source.send(taken)
    print(f"stat::number_of_executed_units: {count}")
    return 1 if findings else 0


def keep(name: str, data: bytes, error: BrokenError) -> None:
    """Write an input to where findings are kept."""
    path = FINDINGS / f"{name}-{hashlib.sha1(data).hexdigest()}"
    path.write_bytes(data)
    print(f"{path}: {error}\n{data.hex()}", flush=True)


def work_atheris(name: str, runs: int, seed: int, corpus: Path) -> int:
    """Hand the target to libFuzzer, with our own code instrumented. Does not return."""
    atheris: Any = importlib.import_module("atheris")  # Not on every machine.
    chosen = target(name)
    corpus.mkdir()
    for data in chosen.seeds():
        (corpus / hashlib.sha1(data).hexdigest()).write_bytes(data)
    for module in chosen.modules():
        for function in functions(importlib.import_module(module)):
            atheris.instrument_func(function)
    arguments = [
        sys.argv[0], str(corpus), f"-runs={runs}", f"-seed={seed or 1}", "-print_final_stats=1",
        f"-max_len={chosen.INPUT_BYTES_MAX}", f"-timeout={INPUT_SECONDS_MAX}",
        f"-rss_limit_mb={MEMORY_MB_MAX}", f"-artifact_prefix={FINDINGS}/{name}-",
    ]  # fmt: skip
    atheris.Setup(arguments, lambda data: chosen.check(data, TWINS_ONE_IN))
    atheris.Fuzz()
    return 0


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions and methods that a module defines."""
    for entry in vars(module).values():
        members = [entry, *vars(entry).values()] if isinstance(entry, type) else [entry]
        for member in members:
            inner = member.__func__ if isinstance(member, classmethod) else member
            if isinstance(inner, FunctionType) and inner.__module__ == module.__name__:
                yield inner


if __name__ == "__main__":
    sys.exit(main())
