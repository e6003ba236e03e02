"""Output of the commands: to terminals, as logs, as findings and failures."""
