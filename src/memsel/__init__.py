"""memsel: the ranking step between memory retrieval and an LLM prompt."""

__version__ = "0.1.0"

try:
    from . import _core, _gather
except ModuleNotFoundError as error:
    raise ImportError(
        "memsel's compiled modules are not built for this interpreter; run `pip install .` in the source tree"
    ) from error

__all__ = ["__version__"]
