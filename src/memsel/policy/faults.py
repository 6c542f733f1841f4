"""How an error of the policy shows the value it got: short, and with no secret in it."""

from memsel.policy.redaction import redact


def shown(value: object) -> str:
    """A number or a short text as it is written, redacted; of anything else its size or its type."""
    if isinstance(value, str):
        return repr(redact(value)) if len(value) <= 200 else f"a text of {len(value)} characters"
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 10**20):
        return repr(value)
    return f"of type {type(value).__name__}"
