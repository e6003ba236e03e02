"""Runs the benchmarks of this folder: `python -m benchmarks`, or only some: `python -m benchmarks origin`.

A benchmark is a file `bench_<name>.py`, run as a program of its own so that none warms up another.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(wanted: list[str]) -> int:
    known = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    if unknown := sorted(set(wanted) - set(known)):
        print(f"no benchmark {', '.join(unknown)}: there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = [name for name in wanted or known if run(name) != 0]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run(name: str) -> int:
    print(f"== {name}", flush=True)
    return subprocess.run([sys.executable, "-m", f"benchmarks.bench_{name}"], cwd=HERE.parent).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
