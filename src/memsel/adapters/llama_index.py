"""memsel in LlamaIndex: a node postprocessor, for query engines, chat engines and wherever else nodes are reranked.

Dates without a zone are UTC, as LlamaIndex's own readers write the dates of files.
"""

from __future__ import annotations

try:
    from llama_index.core.bridge.pydantic import ConfigDict, Field
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
except ImportError as error:
    raise ImportError(
        'memsel.adapters.llama_index needs llama-index-core; install it with: pip install "memsel[llama-index]"'
    ) from error

from ..config import SelectionConfig
from ._documents import Candidate, NaiveTimes, select_candidates

__all__ = ["MemselPostprocessor"]


class MemselPostprocessor(BaseNodePostprocessor):
    """Keeps the nodes that score best by relevance, recency and importance and fit the token budget, best first.

    Relevance is the score that a node comes with, 0.5 where it is None; the composite score takes its place in the
    nodes that are returned. Tokens are those of the text that the model gets to see, metadata included.

    Attributes:
        config: weights and limits, as everywhere in memsel; read at every call.
        time_key: where in the node's metadata its time stands: a datetime, an ISO-8601 text or seconds since the epoch.
            Without one it is new.
        access_key: the time that counts instead where ``config.recency_from`` is ``"accessed"``; LlamaIndex's own
            time-weighted postprocessor writes it.
        importance_key: where its importance stands, 0 to 1; 0.5 without one.
        naive_times: what a time without a zone is in: ``"utc"`` or ``"local"`` time.

    Raises, when nodes are postprocessed:
        InputError: a score or a value in the metadata is not what it should be; the message names node and key.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    config: SelectionConfig = Field(default_factory=SelectionConfig)
    time_key: str = "date"
    access_key: str = "__last_accessed__"
    importance_key: str = "importance"
    naive_times: NaiveTimes = "utc"

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex stores it."""
        return "MemselPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        chosen = select_candidates(
            [
                Candidate(
                    f"nodes[{row}] (id {scored.node.node_id!r})",
                    scored.node.get_content(MetadataMode.LLM),
                    scored.score,
                    "score",
                    scored.node.metadata,
                )
                for row, scored in enumerate(nodes)
            ],
            self.config,
            time_key=self.time_key,
            access_key=self.access_key,
            importance_key=self.importance_key,
            naive_times=self.naive_times,
        )
        return [
            NodeWithScore(node=nodes[row].node, score=score)
            for row, score in zip(chosen.indices.tolist(), chosen.scores.tolist(), strict=True)
        ]
