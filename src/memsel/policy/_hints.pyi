from typing import Final

NAME: Final[int]
CREDENTIAL: Final[int]
ADDRESS: Final[int]
COMMAND: Final[int]
BLOCK: Final[int]
LONG_RUN: Final[int]

def hints(text: str) -> int: ...
