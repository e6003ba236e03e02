from streams import StreamsBuilder, run

builder = StreamsBuilder(key_serde="string", value_serde="string")
words = builder.stream("lines").flat_map_values(lambda line: line.lower().split())
words.group_by(lambda _, word: word).count(materialized="counts").to_stream().to("counts-by-word")

if __name__ == "__main__":
    run(builder)
