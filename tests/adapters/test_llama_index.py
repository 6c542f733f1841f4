"""The LlamaIndex adapter in LlamaIndex's own query engines, with its in-memory store and mock models."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from questions import Question, questions, wrong_values
from worlds import NOW

import memsel

pytest.importorskip("llama_index.core")

from llama_index.core import SimpleDirectoryReader, VectorStoreIndex
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor import TimeWeightedPostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import ValidationError

from memsel.adapters.llama_index import MemselPostprocessor

EXAMPLE = Path(__file__).parents[2] / "examples" / "with_llama_index.py"
KEYS = {"created": "date", "accessed": "__last_accessed__", "importance": "importance"}
ASKED = questions(lambda seconds: datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat())


def node(text: str, score: Any = None, **metadata: Any) -> NodeWithScore:
    inner = TextNode(id_=text or "nothing", text=text, metadata=metadata, excluded_llm_metadata_keys=list(metadata))
    return NodeWithScore(node=inner, score=score)


def nodes(question: Question) -> list[NodeWithScore]:
    made = []
    for memory in question.memories:
        metadata = {key: memory[name] for name, key in KEYS.items() if name in memory}
        inner = TextNode(
            id_=memory["id"], text=memory["text"], metadata=metadata, excluded_llm_metadata_keys=list(metadata)
        )
        made.append(NodeWithScore(node=inner, score=memory.get("score")))
    return made


@pytest.mark.parametrize("question", ASKED, ids=range(len(ASKED)))
def test_it_keeps_what_the_selector_keeps_with_the_same_scores(question: Question, clock: Any) -> None:
    kept = MemselPostprocessor(config=question.config).postprocess_nodes(nodes(question), query_str="q")
    assert [(scored.node.node_id, scored.score) for scored in kept] == question.expected


def index_of(embedded: dict[str, tuple[list[float], dict[str, Any]]]) -> VectorStoreIndex:
    """LlamaIndex's in-memory index of texts with their embeddings and metadata."""
    made = []
    for text, (embedding, metadata) in embedded.items():
        made.append(TextNode(id_=text, text=text, embedding=embedding, metadata=metadata))
        made[-1].excluded_llm_metadata_keys = list(metadata)
    return VectorStoreIndex(made, embed_model=MockEmbedding(embed_dim=2))


def test_in_a_query_engine_sync_and_async() -> None:
    now = datetime.now(UTC)
    old = (now - timedelta(days=90)).isoformat()
    # The mock model asks with (0.5, 0.5) whatever the query.
    index = index_of(
        {
            "near, old": ([1.0, 1.0], {"date": old, "importance": 0.5}),
            "near, fresh": ([1.0, 0.9], {"date": now.isoformat(), "importance": 0.5}),
            "far, fresh": ([1.0, -1.0], {"date": now.isoformat(), "importance": 0.5}),
            "far, important": ([1.0, -1.0], {"date": old, "importance": 1.0}),
        }
    )
    processor = MemselPostprocessor(config=memsel.SelectionConfig(top_k=3))
    engine = index.as_query_engine(llm=MockLLM(), similarity_top_k=4, node_postprocessors=[processor])
    for response in (engine.query("q"), asyncio.run(engine.aquery("q"))):
        assert [scored.node.node_id for scored in response.source_nodes] == ["near, fresh", "near, old", "far, fresh"]
        # The mock model answers with what it was asked: the nodes kept and no other.
        assert "near, fresh" in str(response)
        assert "far, important" not in str(response)
    processor.config.token_budget = 2  # the config is read at every call
    assert [scored.node.node_id for scored in engine.query("q").source_nodes] == ["near, fresh"]


def test_in_a_chat_engine() -> None:
    index = index_of({"useful": ([1.0, 1.0], {"importance": 1}), "useless": ([1.0, -1.0], {"importance": 0})})
    processor = MemselPostprocessor(config=memsel.SelectionConfig(min_composite_score=0.6))
    chat = ContextChatEngine.from_defaults(
        retriever=index.as_retriever(similarity_top_k=2),
        llm=MockLLM(),
        memory=ChatMemoryBuffer.from_defaults(llm=MockLLM()),
        node_postprocessors=[processor],
    )
    assert [scored.node.node_id for scored in chat.chat("hello").source_nodes] == ["useful"]


def test_nothing_in_nothing_out_and_what_came_in_stays() -> None:
    assert MemselPostprocessor().postprocess_nodes([]) == []
    given = [node("a", 0.9), node("b")]
    kept = MemselPostprocessor().postprocess_nodes(given)
    assert [scored.score for scored in given] == [0.9, None]
    assert [scored.node for scored in kept] == [scored.node for scored in given]


def test_tokens_are_those_of_the_text_that_the_model_sees() -> None:
    seen = TextNode(id_="a", text="x" * 4, metadata={"note": "y" * 400})
    config = memsel.SelectionConfig(token_budget=50)
    assert MemselPostprocessor(config=config).postprocess_nodes([NodeWithScore(node=seen)]) == []
    seen.excluded_llm_metadata_keys = ["note"]
    assert len(MemselPostprocessor(config=config).postprocess_nodes([NodeWithScore(node=seen)])) == 1


def test_the_time_that_the_time_weighted_postprocessor_writes_is_read(clock: Any) -> None:
    config = memsel.SelectionConfig(0.0, 1.0, 0.0, recency_from="accessed", recency_half_life_hours=1.0)
    accessed = TimeWeightedPostprocessor(now=NOW - 3600.0).postprocess_nodes([node("a", 0.5)])
    assert accessed[0].node.metadata == {"__last_accessed__": NOW - 3600.0}
    assert [scored.score for scored in MemselPostprocessor(config=config).postprocess_nodes(accessed)] == [0.5]


def test_the_dates_that_the_directory_reader_writes_are_read(tmp_path: Path, clock: Any) -> None:
    (tmp_path / "note.txt").write_text("a note", "utf-8")
    os.utime(tmp_path / "note.txt", (NOW - 86400, NOW - 86400))
    (document,) = SimpleDirectoryReader(str(tmp_path)).load_data()
    config = memsel.SelectionConfig(0.0, 1.0, 0.0)
    reading = MemselPostprocessor(config=config, time_key="last_modified_date")
    (kept,) = reading.postprocess_nodes([NodeWithScore(node=document)])
    assert document.metadata["last_modified_date"] == "2023-11-13"
    assert kept.score == math.exp(-(math.log(2) / 24.0) * ((NOW - 1_699_833_600) / 3600.0))


@wrong_values("date", "importance", "score")
def test_a_wrong_value_is_refused_by_node_and_key(key: str, value: Any, message: str) -> None:
    wrong = node("b7", **({} if key == "score" else {key: value}))
    if key == "score":
        # Assignment is not checked by LlamaIndex, and retrievers of others assign.
        wrong.score = value
    with pytest.raises(memsel.InputError) as raised:
        MemselPostprocessor().postprocess_nodes([node("a"), wrong])
    assert str(raised.value).startswith(f"nodes[1] (id 'b7'): {key} is ")
    assert str(raised.value).endswith(message)


def test_llama_index_writes_and_reads_it() -> None:
    config = memsel.SelectionConfig(top_k=3, overflow="stop", recency_from="accessed")
    processor = MemselPostprocessor(config=config, time_key="when", naive_times="local")
    assert processor.class_name() == processor.to_dict()["class_name"] == "MemselPostprocessor"
    for again in (
        MemselPostprocessor.from_dict(processor.to_dict()),
        MemselPostprocessor.from_json(processor.to_json()),
    ):
        assert again.to_dict() == processor.to_dict()
        assert again.config == config
        assert type(again.config) is memsel.SelectionConfig
    with pytest.raises(ValidationError, match="Weights must sum to 1"):
        MemselPostprocessor(config={"relevance_weight": 3})
    with pytest.raises(ValidationError, match="tim_key"):
        MemselPostprocessor(tim_key="when")


def test_the_example_runs() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True, env=env)
    assert len(done.stdout.splitlines()) == 3
    assert len(EXAMPLE.read_text("utf-8").splitlines()) < 40
