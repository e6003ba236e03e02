"""The topics and stores of the test driver, and the order in which it processes records."""
