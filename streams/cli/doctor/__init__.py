"""`streams doctor`: checks the machine, the cluster, the rights and the application."""
