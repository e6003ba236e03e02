"""`streams demo`: a tour of small applications, without Kafka.

The applications are the modules `counting`, `windows`, `joins` and `shop`; `tour` shows them, and `crash` kills the
last one while it works. `live` keeps it running, for a browser.
"""
