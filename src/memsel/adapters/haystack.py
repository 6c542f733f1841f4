"""memsel in Haystack: a ranker component for pipelines.

Dates without a zone are local time: Haystack's converters take ``datetime.now().isoformat()`` for the date of a file.
"""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from typing import Any

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.core.serialization import import_class_by_name
    from haystack.utils import deserialize_callable, serialize_callable
except ImportError as error:
    raise ImportError(
        'memsel.adapters.haystack needs haystack-ai; install it with: pip install "memsel[haystack]"'
    ) from error

from ..config import SelectionConfig
from ..errors import InputError
from ..tokens import ScriptTokenEstimator, TiktokenCounter
from ._documents import Candidate, NaiveTimes, select_candidates

__all__ = ["MemselRanker"]


@component
class MemselRanker:
    """Keeps the documents that score best by relevance, recency and importance and fit the token budget, best first.

    Relevance is the score that a document comes with, 0.5 where it is None; the composite score takes its place in the
    copies that are returned.

    Args:
        config: weights and limits, as everywhere in memsel; read at every run. ``SelectionConfig()`` when None.
        time_key: where in ``Document.meta`` its time stands: a datetime, an ISO-8601 text or seconds since the epoch.
            Without one it is new.
        access_key: the time that counts instead where ``config.recency_from`` is ``"accessed"``.
        importance_key: where its importance stands, 0 to 1; 0.5 without one.
        naive_times: what a time without a zone is in: ``"local"`` time or ``"utc"``.

    Raises:
        InputError: ``naive_times`` is another word; at a run, a score or a value in ``meta`` is not what it should be,
            and the message names document and key.
    """

    def __init__(
        self,
        config: SelectionConfig | None = None,
        *,
        time_key: str = "created_at",
        access_key: str = "last_accessed_at",
        importance_key: str = "importance",
        naive_times: NaiveTimes = "local",
    ) -> None:
        if naive_times not in ("local", "utc"):
            raise InputError(f"naive_times is {naive_times!r}; expected 'local' or 'utc'")
        self.config = config or SelectionConfig()
        self.time_key = time_key
        self.access_key = access_key
        self.importance_key = importance_key
        self.naive_times: NaiveTimes = naive_times

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document], top_k: int | None = None) -> dict[str, list[Document]]:
        """The documents kept, under ``documents``; ``top_k`` stands in for that of the config in this run."""
        config = self.config
        if top_k is not None:
            config = copy.copy(config)
            config.top_k = top_k
        chosen = select_candidates(
            [
                Candidate(
                    f"documents[{row}] (id {document.id!r})",
                    document.content or "",
                    document.score,
                    "score",
                    document.meta,
                )
                for row, document in enumerate(documents)
            ],
            config,
            time_key=self.time_key,
            access_key=self.access_key,
            importance_key=self.importance_key,
            naive_times=self.naive_times,
        )
        kept = zip(chosen.indices.tolist(), chosen.scores.tolist(), strict=True)
        return {"documents": [replace(documents[row], score=score) for row, score in kept]}

    def to_dict(self) -> dict[str, Any]:
        """The component as Haystack writes it into a pipeline's file.

        Raises:
            SerializationError: the token counter is neither a function of a module nor one of memsel's counters.
        """
        config = {field.name: getattr(self.config, field.name) for field in fields(self.config)}
        config["token_counter"] = _written(self.config.token_counter)
        return default_to_dict(
            self,
            config=config,
            time_key=self.time_key,
            access_key=self.access_key,
            importance_key=self.importance_key,
            naive_times=self.naive_times,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MemselRanker:
        """The component that ``to_dict`` wrote."""
        parameters = dict(data.get("init_parameters", {}))
        if parameters.get("config") is not None:
            config = dict(parameters["config"])
            config["token_counter"] = _read(config.get("token_counter"))
            parameters["config"] = SelectionConfig(**config)
        return default_from_dict(cls, {**data, "init_parameters": parameters})


def _written(counter: Any) -> Any:
    if isinstance(counter, TiktokenCounter):
        return default_to_dict(counter, encoding=counter.encoding, cache_dir=counter.cache_dir)
    if isinstance(counter, ScriptTokenEstimator):
        return default_to_dict(counter)
    return None if counter is None else serialize_callable(counter)


def _read(written: Any) -> Any:
    if isinstance(written, dict):
        # By way of Haystack's list of modules that a pipeline's file may name.
        return default_from_dict(import_class_by_name(written["type"]), written)
    return None if written is None else deserialize_callable(written)
