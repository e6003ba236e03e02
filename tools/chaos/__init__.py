"""A bench of grey failures on real brokers: what stops, is slow or does not answer, instead of what dies."""
