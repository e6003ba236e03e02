"""Counts words, in a module that takes long to import: until a file is there."""

import os
import sys
import time

from word_count import topology

__all__ = ["topology"]

print("importing", file=sys.stderr, flush=True)
while not os.path.exists(os.environ["GATE"]):
    time.sleep(0.02)
