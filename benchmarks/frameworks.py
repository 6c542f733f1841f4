"""The time-weighted rankings of LangChain and LlamaIndex, beside memsel on entries with the same numbers.

Both add a similarity and an exponential recency and sort, without importance and without a budget. memsel is given
weights that rank alike: half a similarity and half a recency, with the half-life that their decay rate means.
"""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable
from typing import Any

import memsel

from . import work
from .work import NOW

DECAY_RATE = 0.01
_KEPT = 10


def _selector() -> memsel.MemorySelector:
    half_life = math.log(0.5) / math.log(1.0 - DECAY_RATE)
    return memsel.MemorySelector(
        memsel.SelectionConfig(
            0.5, 0.5, 0.0, recency_half_life_hours=half_life, min_composite_score=0.0, top_k=_KEPT, token_budget=10**9
        )
    )


def memsel_on(entries: list[Any], scores: dict[str, float], now: float | None) -> Callable[[], list[str]]:
    selector = _selector()
    return lambda: [scored.entry.id for scored in selector.select("", entries, scores, now=now)]


def langchain_race(rows: int) -> dict[str, Callable[[], list[str]]]:
    """LangChain's retriever over a store that already knows the similarities, and memsel."""
    from langchain_classic.retrievers import TimeWeightedVectorStoreRetriever
    from langchain_core.documents import Document
    from langchain_core.vectorstores import VectorStore

    entries = work.entries(memsel, rows, shuffled=False)
    shift = time.time() - NOW
    for entry in entries:
        entry.timestamp += shift
    scores = work.scores([entry.id for entry in entries])
    documents = [
        Document(
            entry.content,
            metadata={
                "buffer_idx": number,
                "id": entry.id,
                "last_accessed_at": datetime.datetime.fromtimestamp(entry.timestamp),
            },
        )
        for number, entry in enumerate(entries)
    ]

    class KnownSimilarities(VectorStore):
        def similarity_search_with_relevance_scores(self, query: str, k: int = 4, **kwargs: Any) -> list[Any]:
            return [(document, scores[document.metadata["id"]]) for document in documents]

        def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Any]:
            return documents[:k]

        @classmethod
        def from_texts(cls, *args: Any, **kwargs: Any) -> KnownSimilarities:
            return cls()

    retriever = TimeWeightedVectorStoreRetriever(
        vectorstore=KnownSimilarities(), memory_stream=documents, decay_rate=DECAY_RATE, k=_KEPT
    )
    times = [document.metadata["last_accessed_at"] for document in documents]

    def retrieve() -> list[str]:
        found = retriever.invoke("")
        for document in found:
            # The retriever counts its own finding as an access; the next call starts from the same times.
            document.metadata["last_accessed_at"] = times[document.metadata["buffer_idx"]]
        return [document.metadata["id"] for document in found]

    return {"memsel": memsel_on(entries, scores, None), "langchain time-weighted retriever": retrieve}


def llama_index_race(rows: int) -> dict[str, Callable[[], list[str]]]:
    """LlamaIndex's postprocessor, and memsel."""
    from llama_index.core.postprocessor import TimeWeightedPostprocessor
    from llama_index.core.schema import NodeWithScore, TextNode

    entries = work.entries(memsel, rows, shuffled=False)
    scores = work.scores([entry.id for entry in entries])
    nodes = [
        NodeWithScore(
            node=TextNode(id_=entry.id, text=entry.content, metadata={"__last_accessed__": entry.timestamp}),
            score=scores[entry.id],
        )
        for entry in entries
    ]
    processor = TimeWeightedPostprocessor(time_decay=DECAY_RATE, time_access_refresh=False, now=NOW, top_k=_KEPT)
    return {
        "memsel": memsel_on(entries, scores, NOW),
        "llama-index time-weighted postprocessor": lambda: [
            found.node.node_id for found in processor.postprocess_nodes(nodes)
        ],
    }
