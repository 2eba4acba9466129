"""`top`: shows a domain, live."""
