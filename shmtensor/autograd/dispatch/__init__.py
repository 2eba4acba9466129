"""What an op's call does when an operand is not a plain tensor, and explaining what went wrong."""
