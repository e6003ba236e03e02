"""Records the tour's crash again and draws it: `python -m tools.terminal`. `make pictures` draws what is recorded."""

from __future__ import annotations

from tools.terminal.drawing import crash_picture
from tools.terminal.recording import CRASH, record_crash
from tools.timelines.pictures import FOLDER

if __name__ == "__main__":
    recording = record_crash()
    CRASH.write_text(recording, encoding="utf-8", newline="\n")
    (FOLDER / "crash.svg").write_text(crash_picture(recording), encoding="utf-8", newline="\n")
    print(CRASH, FOLDER / "crash.svg", sep="\n")
