"""Contract suites that every implementation of a port passes; run them on your own."""
