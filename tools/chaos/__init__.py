"""A bench of grey failures on real brokers: what stands still, is slow or does not answer, in place of what dies."""
