"""Measurement: cases, repeats in turn, the machine, partner processes, tables and pages."""
