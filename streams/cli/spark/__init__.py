"""`streams spark`: backfills, differences, exports and handovers from the command line."""
