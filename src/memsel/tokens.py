"""Token counters: what may count the tokens of a text, and the check of what it says."""

from __future__ import annotations

import operator
from typing import Any

__all__ = ["checked_count"]


def checked_count(counter: Any, text: str, whose: str) -> int:
    """The tokens of a text by a callable ``str -> int`` or an object with ``count``.

    Raises:
        ValueError: the result is not an integer of 1 or more; the message names ``whose`` text it was.
    """
    result = counter.count(text) if hasattr(counter, "count") else counter(text)
    if isinstance(result, bool) or not hasattr(result, "__index__") or operator.index(result) < 1:
        raise ValueError(f"the token counter answered {result!r} for {whose}; expected an integer of 1 or more")
    return operator.index(result)
