"""memsel in LangChain: a document compressor, the time-weighted retriever's ranking, and a middleware for agents.

Dates without a zone are local time, as LangChain's own time-weighted retriever writes them (``datetime.now()``).
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain_classic.retrievers import TimeWeightedVectorStoreRetriever
    from langchain_core.callbacks import Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
    from pydantic import ConfigDict, Field, model_validator
except ImportError as error:
    raise ImportError(
        "memsel.adapters.langchain needs langchain, langchain-classic and langchain-core; "
        'install them with: pip install "memsel[langchain]"'
    ) from error

from ..arrays import Selection
from ..config import SelectionConfig
from ._documents import Candidate, NaiveTimes, select_candidates

__all__ = ["MemselCompressor", "MemselMiddleware", "MemselTimeWeightedRetriever"]

_NOTHING_KEPT = "No memory was selected."


class MemselCompressor(BaseDocumentCompressor):
    """Keeps the documents that score best by relevance, recency and importance and fit the token budget, best first.

    Attributes:
        config: weights and limits, as everywhere in memsel; read at every call.
        score_key: where in ``Document.metadata`` the similarity stands; without one a document has relevance 0.5.
        time_key: where its time stands: a datetime, an ISO-8601 text or seconds since the epoch. Without one it is new.
        access_key: the time that counts instead where ``config.recency_from`` is ``"accessed"``.
        importance_key: where its importance stands, 0 to 1; 0.5 without one.
        result_key: where the composite score is put in the metadata of the copies that are returned.
        naive_times: what a time without a zone is in: ``"local"`` time or ``"utc"``.

    Raises, when documents are compressed:
        InputError: a value in a document's metadata is not what it should be; the message names document and key.
    """

    model_config = ConfigDict(extra="forbid")

    config: SelectionConfig = Field(default_factory=SelectionConfig)
    score_key: str = "relevance_score"
    time_key: str = "created_at"
    access_key: str = "last_accessed_at"
    importance_key: str = "importance"
    result_key: str = "composite_score"
    naive_times: NaiveTimes = "local"

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Copies of the documents kept, best first; ``query`` is not used, for relevance is in the metadata."""
        chosen = self._selection(documents)
        return [
            documents[row].model_copy(update={"metadata": {**documents[row].metadata, self.result_key: score}})
            for row, score in zip(chosen.indices.tolist(), chosen.scores.tolist(), strict=True)
        ]

    def _selection(self, documents: Sequence[Document]) -> Selection:
        return select_candidates(
            [_candidate(row, document, self.score_key) for row, document in enumerate(documents)],
            self.config,
            time_key=self.time_key,
            access_key=self.access_key,
            importance_key=self.importance_key,
            naive_times=self.naive_times,
        )


class MemselTimeWeightedRetriever(TimeWeightedVectorStoreRetriever):
    """LangChain's time-weighted retriever with memsel's ranking in place of its sum of scores.

    Candidates are those of the original: what the store finds and the latest ``k``. A candidate that the store did not
    find has the relevance ``default_salience``, 0 where that is None. At most ``k`` are returned, fewer where
    ``config`` says so, and their last access becomes now, as in the original.

    Attributes:
        config: weights and limits. Recency counts from the last access, as in the original; for that from the creation
            give ``SelectionConfig(recency_from="created")``.
        importance_key: where in ``Document.metadata`` the importance stands, 0 to 1; 0.5 without one.

    Raises:
        ValueError: ``decay_rate`` or ``other_score_keys`` is given; half-life and importance stand in their place.
        InputError, at retrieval: a value in a document's metadata is not what it should be.
    """

    config: SelectionConfig = Field(default_factory=lambda: SelectionConfig(recency_from="accessed"))
    importance_key: str = "importance"

    @model_validator(mode="after")
    def _refuse_the_other_ranking(self) -> MemselTimeWeightedRetriever:
        if "decay_rate" in self.model_fields_set:
            raise ValueError("decay_rate has no effect here; set config.recency_half_life_hours")
        if self.other_score_keys:
            raise ValueError("other_score_keys has no effect here; set importance_key and config.importance_weight")
        return self

    def _get_rescored_docs(self, docs_and_scores: dict[Any, tuple[Document, float | None]]) -> list[Document]:
        now = datetime.now()
        config = copy.copy(self.config)
        config.top_k = min(self.k, config.top_k)
        documents = [self.memory_stream[document.metadata["buffer_idx"]] for document, _ in docs_and_scores.values()]
        scores = [0.0 if score is None else score for _, score in docs_and_scores.values()]
        chosen = select_candidates(
            [
                _candidate(row, document, "relevance", score)
                for row, (document, score) in enumerate(zip(documents, scores, strict=True))
            ],
            config,
            time_key="created_at",
            access_key="last_accessed_at",
            importance_key=self.importance_key,
            naive_times="local",
        )
        kept = [documents[row] for row in chosen.indices.tolist()]
        for document in kept:
            document.metadata["last_accessed_at"] = now
        return kept


class MemselMiddleware(AgentMiddleware[Any, Any, Any]):
    """Trims what an agent's tools retrieved to the memories that score best, before each call of the model.

    Retrieved memories are the documents that a tool leaves in the artifact of its message, as LangChain's retriever
    tools with ``response_format="content_and_artifact"`` do. Those of all messages share one selection and one budget.
    A message that loses documents is replaced, in the request and not in the agent's state, by one whose content is the
    texts of those kept, best first. Everything else is left as it is.

    Args:
        compressor: says where the values stand and what the limits are; ``MemselCompressor()`` when None.
        tools: names of the tools whose messages are looked at; all when None.
        separator: what stands between two texts.
    """

    def __init__(
        self,
        compressor: MemselCompressor | None = None,
        *,
        tools: Sequence[str] | None = None,
        separator: str = "\n\n",
    ) -> None:
        super().__init__()
        self.compressor = compressor or MemselCompressor()
        self.tool_names = None if tools is None else frozenset(tools)
        self.separator = separator

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | AIMessage:
        """Hand the trimmed request on."""
        return handler(request.override(messages=self._trimmed(request.messages)))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | AIMessage:
        """Hand the trimmed request on."""
        return await handler(request.override(messages=self._trimmed(request.messages)))

    def _trimmed(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        found = [(place, doc) for place, message in enumerate(messages) for doc in self._memories(message)]
        chosen = self.compressor._selection([document for _, document in found]).indices.tolist()
        kept: dict[int, list[Document]] = {place: [] for place, _ in found}
        for row in chosen:
            place, document = found[row]
            kept[place].append(document)
        trimmed = list(messages)
        for place, documents in kept.items():
            message = messages[place]
            if len(documents) < len(self._memories(message)):
                content = self.separator.join(document.page_content for document in documents) or _NOTHING_KEPT
                trimmed[place] = message.model_copy(update={"content": content, "artifact": documents})
        return trimmed

    def _memories(self, message: AnyMessage) -> Sequence[Document]:
        if not isinstance(message, ToolMessage) or not isinstance(message.artifact, list):
            return []
        if self.tool_names is not None and message.name not in self.tool_names:
            return []
        documents = message.artifact
        return documents if all(isinstance(document, Document) for document in documents) else []


def _candidate(row: int, document: Document, score_place: str, score: Any = None) -> Candidate:
    name = f"documents[{row}]" if document.id is None else f"documents[{row}] (id {document.id!r})"
    if score is None:
        score = document.metadata.get(score_place)
    return Candidate(name, document.page_content, score, score_place, document.metadata)
