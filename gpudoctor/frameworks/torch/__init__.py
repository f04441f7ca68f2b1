"""PyTorch: which GPUs its builds have code for, which build a machine should have, what is wrong with its files."""
