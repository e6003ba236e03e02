"""The live page of a worker: its topology, with what flows now. The files beside this are what a browser loads."""
