"""What callers can get wrong, as exceptions of their own.

A leaf: every other module may raise these, and this module imports nothing of memsel.
"""

__all__ = ["ColumnError", "ColumnTypeError", "InputError"]


class ColumnError(ValueError):
    """A column does not fit: its length, its shape or one of its values. The message names the column and the row."""


class ColumnTypeError(ColumnError, TypeError):
    """A column has a type that cannot be read as what the column means. The message names the column and its type."""


class InputError(ValueError):
    """A memory, a setting or a line of a file is wrong. Its message names place, field, value and rule."""
