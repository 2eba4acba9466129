"""The epochs of a DataLoader: worker processes, fetching, order, state, failures."""
