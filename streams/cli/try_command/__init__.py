"""`streams try`: runs a topology on records that a person types, has in a file or has made up, without Kafka.

`command` has the options, and `runner` runs it. `lines` and `files` read the records, `generate` makes them up, and
`forms` turns texts and JSON into bytes and back. `session` runs the topology in the test driver; `output`, `steps` and
`tables` print what comes of it, and `held_back` finds what it still holds.
"""
