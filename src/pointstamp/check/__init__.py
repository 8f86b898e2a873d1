"""The judge: explore every state of a model, construct explanations of failures, print what breaks."""
