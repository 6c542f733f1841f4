# distutils: language = c++
"""Entries to packed columns."""

def ping():
    return 1
