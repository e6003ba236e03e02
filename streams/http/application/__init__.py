"""The whole application behind one port: a worker asks the others while somebody looks, and merges their answers."""
