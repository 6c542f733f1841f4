"""The Haystack adapter in Haystack's own pipelines, with its in-memory store and mock models."""

from __future__ import annotations

import asyncio
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
from memsel.tokens import ScriptTokenEstimator

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
pytest.importorskip("haystack")

from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.embedders import MockDocumentEmbedder, MockTextEmbedder
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.core.errors import DeserializationError, SerializationError
from haystack.document_stores.in_memory import InMemoryDocumentStore

from memsel.adapters.haystack import MemselRanker

EXAMPLE = Path(__file__).parents[2] / "examples" / "with_haystack.py"
KEYS = {"created": "created_at", "accessed": "last_accessed_at", "importance": "importance"}
ASKED = questions(lambda seconds: datetime.fromtimestamp(seconds).isoformat())


def letters(text: str) -> int:
    """A token counter that a pipeline's file can name."""
    return len(text) or 1


def documents(question: Question) -> list[Document]:
    return [
        Document(
            id=memory["id"],
            content=memory["text"],
            score=memory.get("score"),
            meta={key: memory[name] for name, key in KEYS.items() if name in memory},
        )
        for memory in question.memories
    ]


def answer(ran: dict[str, Any]) -> list[tuple[Any, Any]]:
    return [(document.id, document.score) for document in ran["documents"]]


@pytest.mark.parametrize("question", ASKED, ids=range(len(ASKED)))
def test_it_keeps_what_the_selector_keeps_with_the_same_scores(question: Question, clock: Any) -> None:
    assert answer(MemselRanker(question.config).run(documents(question))) == question.expected


def pipeline_over(texts: dict[str, dict[str, Any]], ranker: MemselRanker) -> Pipeline:
    """A pipeline from a question to a prompt, over Haystack's in-memory store."""
    store = InMemoryDocumentStore()
    made = [Document(id=text, content=text, meta=meta) for text, meta in texts.items()]
    store.write_documents(MockDocumentEmbedder(dimension=16).run(made)["documents"])
    pipeline = Pipeline()
    pipeline.add_component("embedder", MockTextEmbedder(dimension=16))
    retriever = InMemoryEmbeddingRetriever(store, top_k=len(texts), scale_score=True)
    pipeline.add_component("retriever", retriever)
    pipeline.add_component("ranker", ranker)
    template = "{% for document in documents %}[{{ document.content }}]{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables=["documents"]))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    pipeline.connect("retriever.documents", "ranker.documents")
    pipeline.connect("ranker.documents", "prompt.documents")
    return pipeline


def test_in_a_pipeline_sync_and_async() -> None:
    now = datetime.now()
    old = (now - timedelta(days=90)).isoformat()
    texts = {
        "old and trivial": {"created_at": old, "importance": 0.0},
        "fresh and important": {"created_at": now.isoformat(), "importance": 1.0},
        "old and important": {"created_at": old, "importance": 1.0},
    }
    config = memsel.SelectionConfig(relevance_weight=0.0, recency_weight=0.5, importance_weight=0.5)
    pipeline = pipeline_over(texts, MemselRanker(config))
    asked = {"embedder": {"text": "what matters?"}}
    assert pipeline.run(asked)["prompt"]["prompt"] == "[fresh and important][old and important]"
    assert asyncio.run(pipeline.run_async(asked))["prompt"]["prompt"] == "[fresh and important][old and important]"
    assert pipeline.run({**asked, "ranker": {"top_k": 1}})["prompt"]["prompt"] == "[fresh and important]"
    assert config.top_k == 10
    config.token_budget = 4  # the config is read at every run
    assert pipeline.run(asked)["prompt"]["prompt"] == "[fresh and important]"


def test_relevance_is_the_retrievers_score() -> None:
    config = memsel.SelectionConfig(1.0, 0.0, 0.0, min_composite_score=0.0, top_k=3)
    pipeline = pipeline_over({f"note {number}": {} for number in range(20)}, MemselRanker(config))
    asked = {"embedder": {"text": "note 7"}}
    ran = pipeline.run(asked, include_outputs_from={"retriever", "ranker"})
    assert answer(ran["ranker"]) == answer(ran["retriever"])[:3]
    assert ran["ranker"]["documents"][0].content == "note 7"


def test_behind_the_keyword_retriever() -> None:
    store = InMemoryDocumentStore()
    store.write_documents([Document(content="the boat sails"), Document(content="the invoice is due")])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, scale_score=True))
    pipeline.add_component("ranker", MemselRanker(memsel.SelectionConfig(top_k=1)))
    pipeline.connect("retriever", "ranker")
    kept = pipeline.run({"retriever": {"query": "invoice"}})["ranker"]["documents"]
    assert [document.content for document in kept] == ["the invoice is due"]


def test_nothing_in_nothing_out_and_what_came_in_stays() -> None:
    assert MemselRanker().run([]) == {"documents": []}
    given = [Document(content="a", score=0.9), Document(content=None, meta={"importance": 1})]
    kept = MemselRanker().run(given)["documents"]
    assert [document.score for document in given] == [0.9, None]
    assert {document.id for document in kept} == {document.id for document in given}


@wrong_values("created_at", "importance", "score")
def test_a_wrong_value_is_refused_by_document_and_key(key: str, value: Any, message: str) -> None:
    wrong = {"score": value} if key == "score" else {"meta": {key: value}}
    with pytest.raises(memsel.InputError) as raised:
        MemselRanker().run([Document(content="a"), Document(id="b7", content="b", **wrong)])
    assert str(raised.value).startswith(f"documents[1] (id 'b7'): {key} is ")
    assert str(raised.value).endswith(message)


@pytest.mark.parametrize("naive_times", ["local", "utc"])
def test_a_date_without_a_zone_is_in_the_zone_that_was_said(naive_times: Any, clock: Any) -> None:
    hour_ago = datetime.fromtimestamp(NOW - 3600.0, None if naive_times == "local" else UTC).replace(tzinfo=None)
    config = memsel.SelectionConfig(0.0, 1.0, 0.0, recency_half_life_hours=1.0)
    ranker = MemselRanker(config, naive_times=naive_times)
    given = [Document(content="a", meta={"created_at": moment}) for moment in (hour_ago, hour_ago.isoformat())]
    given = [Document(id=str(row), content="a", meta=document.meta) for row, document in enumerate(given)]
    assert answer(ranker.run(given)) == [("0", 0.5), ("1", 0.5)]
    with pytest.raises(memsel.InputError, match="naive_times is 'here'; expected 'local' or 'utc'"):
        MemselRanker(naive_times="here")


@pytest.mark.parametrize("counter", [None, letters, ScriptTokenEstimator()], ids=["default", "function", "memsel's"])
def test_a_pipelines_file_carries_it(counter: Any) -> None:
    config = memsel.SelectionConfig(top_k=3, overflow="stop", recency_from="accessed", token_counter=counter)
    pipeline = Pipeline()
    pipeline.add_component("ranker", MemselRanker(config, time_key="when", naive_times="utc"))
    allowed = ["memsel", letters.__module__]
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=allowed)
    ranker = again.get_component("ranker")
    assert ranker.config == config
    assert ranker.to_dict() == pipeline.get_component("ranker").to_dict()
    assert (ranker.time_key, ranker.naive_times) == ("when", "utc")
    with pytest.raises(DeserializationError, match="allowlist"):
        Pipeline.loads(pipeline.dumps())


def test_a_tiktoken_counter_is_written_by_its_name() -> None:
    from memsel.adapters.haystack import _read, _written
    from memsel.tokens import TiktokenCounter

    counter = object.__new__(TiktokenCounter)  # made without its vocabulary, which would have to be downloaded
    counter.encoding, counter.cache_dir = "o200k_base", "/vocabularies"
    assert _written(counter) == {
        "type": "memsel.tokens.TiktokenCounter",
        "init_parameters": {"encoding": "o200k_base", "cache_dir": "/vocabularies"},
    }
    with pytest.raises(DeserializationError, match="allowlist"):
        _read({"type": "subprocess.Popen", "init_parameters": {"args": ["true"]}})


def test_a_counter_that_has_no_name_cannot_be_written() -> None:
    with pytest.raises(SerializationError, match="lambda"):
        MemselRanker(memsel.SelectionConfig(token_counter=lambda text: 1)).to_dict()


def test_the_example_runs() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True, env=env)
    assert len(done.stdout.splitlines()) == 3
    assert len(EXAMPLE.read_text("utf-8").splitlines()) < 40
