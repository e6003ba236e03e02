"""Counts the visits of each page in windows of one minute, and sends a count on when its window has closed."""

from datetime import timedelta

from streams import EmitStrategy, StreamsBuilder, TimeWindows

builder = StreamsBuilder(key_serde="string", value_serde="string")
minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
visits = builder.stream("visits").group_by_key().windowed_by(minutes)
visits.emit_strategy(EmitStrategy.on_window_close()).count().to_stream().to("visits-by-minute")
