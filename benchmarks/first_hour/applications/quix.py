import os

from quixstreams import Application

app = Application(broker_address=os.environ["BROKER"], consumer_group="quix", auto_offset_reset="earliest")
lines = app.topic("quix-lines", value_deserializer="str")
counts = app.topic("quix-counts", key_serializer="str", value_serializer="json")
words = (
    app.dataframe(lines).apply(lambda line: line.lower().split(), expand=True).group_by(lambda word: word, name="word")
)
words.apply(lambda _, state: state.set("n", state.get("n", 0) + 1) or state.get("n"), stateful=True).to_topic(counts)

if __name__ == "__main__":
    app.run()
