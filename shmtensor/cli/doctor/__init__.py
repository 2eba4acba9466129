"""`doctor`: problems of this machine, each with its remedy."""
