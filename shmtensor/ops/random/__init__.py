"""Random numbers: Philox streams, and the rows that draw from them."""
