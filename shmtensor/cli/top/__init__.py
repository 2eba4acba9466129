"""`top`: one run, live."""
