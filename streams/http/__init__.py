"""One HTTP port of a worker: probes, metrics, its topology, and reads of its stores. It needs the extra ``http``."""
