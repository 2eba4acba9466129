"""A folder in the PYTHONPATH of programs whose `torch` is this library, see ../__init__.py."""
