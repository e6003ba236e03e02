"""The likely mistakes in a plan, which are reported when its topology is built: the topology can run, but hardly does
what its author means."""
