"""Measurements of memsel. ``pytest benchmarks/`` times it alone; ``python -m benchmarks.compare`` races it."""
