STOP_WORDS: frozenset[str]
NEGATIONS: frozenset[str]

def words(text: str) -> list[str]: ...
