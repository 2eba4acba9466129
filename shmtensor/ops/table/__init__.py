"""The op table: what a row is, and the parts that rows share."""
