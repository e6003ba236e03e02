"""The time that the origin check adds to `import streams`: it should stay well under a millisecond."""

import statistics
import subprocess
import sys

PROGRAM = """
import importlib.util, sys, time
import streams
from streams.origin import SIBLINGS, check_origin
for name in SIBLINGS:
    sys.modules.pop(name, None)
importlib.invalidate_caches()
begin = time.perf_counter()
check_origin()
print((time.perf_counter() - begin) * 1e6)
"""


def main() -> None:
    runs = [float(subprocess.check_output([sys.executable, "-c", PROGRAM])) for _ in range(21)]
    print(f"check_origin, cold folders: median {statistics.median(runs):.0f} us, worst {max(runs):.0f} us")


if __name__ == "__main__":
    main()
