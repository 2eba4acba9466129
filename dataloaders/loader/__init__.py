"""What a DataLoader does in an epoch: worker processes, fetching, order, state, failures."""
