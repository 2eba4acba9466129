"""Random numbers: Philox streams, and the rows that use them."""
