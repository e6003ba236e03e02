"""Pictures of how operators treat time, drawn from what topologies did in the test driver.

`python -m tools.timelines [FOLDER]` runs small topologies, and draws their input records, windows and results as SVG
files. Nothing in a picture is placed by hand: where a window lies, which records are in it and when a result leaves is
read from the run. So a picture changes when an operator does, and a test notices that.
"""
