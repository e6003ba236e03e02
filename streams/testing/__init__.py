"""Tools to test topologies and what this library is built on."""
