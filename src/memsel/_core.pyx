# distutils: language = c++
"""The kernel over packed columns."""

def ping():
    return 1
