"""The errors that memsel raises at its doors; every one is a ValueError that says what, where, got and wanted."""


class ColumnError(ValueError):
    """A column does not hold what its door wants: its length, its shape or one of its values."""


class ColumnTypeError(ColumnError, TypeError):
    """A column has a type or dtype that cannot be read as what its door wants."""


class InputError(ValueError):
    """A memory, a setting, an argument or a line of a file does not hold what is wanted of it."""
