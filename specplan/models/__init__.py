"""What a model is: its matrices, attention and formats; where configs and weights are found and read."""
