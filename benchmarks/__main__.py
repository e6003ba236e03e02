"""Runs the benchmarks of this folder: `python -m benchmarks`, or only some: `python -m benchmarks origin chain`.

What follows the last name is given to each of them: `python -m benchmarks backfill 5000000 --rounds 1`. A benchmark is
a file `bench_<name>.py`, run as a program of its own so that none warms up another.
"""

import subprocess
import sys
from itertools import takewhile
from pathlib import Path

HERE = Path(__file__).parent


def main(given: list[str]) -> int:
    known = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    wanted = list(takewhile(known.__contains__, given))
    arguments = given[len(wanted) :]
    if arguments and not wanted:
        print(f"no benchmark {given[0]}: there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = [name for name in wanted or known if run(name, arguments) != 0]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run(name: str, arguments: list[str]) -> int:
    print(f"== {name}", flush=True)
    return subprocess.run([sys.executable, "-m", f"benchmarks.bench_{name}", *arguments], cwd=HERE.parent).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
