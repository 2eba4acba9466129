"""The op table: the definition of a row, and helpers of rows."""
