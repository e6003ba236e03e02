"""`streams try`: runs a topology on records that a person types, has in a file or has made up, without Kafka.

`command` reads the options, `lines` and `files` the records, `forms` turns texts and JSON into bytes and back,
`session` runs the topology in the test driver, `output` prints what it writes, `held_back` what it still holds.
"""
