"""`doctor`: what this machine lacks, each finding with its remedy."""
