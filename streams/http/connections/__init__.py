"""HttpConnections of the HTTP port: who is let in, and reads that are answered without the framework."""
