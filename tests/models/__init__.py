"""The examples' models, trained side by side with PyTorch from the same weights and data."""
