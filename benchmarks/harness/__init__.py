"""What measures: cases, repeats in turn, the machine, partners, tables and pages."""
