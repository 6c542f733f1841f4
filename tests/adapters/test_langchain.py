"""The LangChain adapter in LangChain's own retrievers and agents, with its in-memory store and fake models."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from questions import Question, questions, wrong_values
from worlds import NOW

import memsel

pytest.importorskip("langchain")
pytest.importorskip("langchain_classic")

from langchain.agents import create_agent
from langchain_classic.retrievers import ContextualCompressionRetriever, TimeWeightedVectorStoreRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import Field, ValidationError

from memsel.adapters.langchain import MemselCompressor, MemselMiddleware, MemselTimeWeightedRetriever

EXAMPLE = Path(__file__).parents[2] / "examples" / "with_langchain.py"
KEYS = {"score": "relevance_score", "created": "created_at", "accessed": "last_accessed_at", "importance": "importance"}
ASKED = questions(datetime.fromtimestamp)


def documents(question: Question) -> list[Document]:
    return [
        Document(
            id=memory["id"],
            page_content=memory["text"],
            metadata={key: memory[name] for name, key in KEYS.items() if name in memory},
        )
        for memory in question.memories
    ]


def answer(kept: Any) -> list[tuple[Any, Any]]:
    return [(document.id, document.metadata["composite_score"]) for document in kept]


def store_with_scores(texts: dict[str, dict[str, Any]]) -> tuple[InMemoryVectorStore, Any]:
    """LangChain's in-memory store, and a retriever over it that leaves the similarity in the metadata."""
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=32))
    store.add_documents([Document(id=text, page_content=text, metadata=meta) for text, meta in texts.items()])

    def retrieve(query: str) -> list[Document]:
        found = store.similarity_search_with_score(query, k=len(texts))
        for document, score in found:
            document.metadata["relevance_score"] = score
        return [document for document, _ in found]

    return store, RunnableLambda(retrieve)


@pytest.mark.parametrize("question", ASKED, ids=range(len(ASKED)))
def test_it_keeps_what_the_selector_keeps_with_the_same_scores(question: Question, clock: Any) -> None:
    compressor = MemselCompressor(config=question.config)
    assert answer(compressor.compress_documents(documents(question), "q")) == question.expected


def test_the_questions_are_not_all_alike() -> None:
    assert len({len(question.expected) for question in ASKED}) > 8
    assert sum(len(question.expected) < len(question.memories) for question in ASKED) > 20


def test_the_documents_given_stay_as_they_were() -> None:
    given = [Document(page_content="a", metadata={"importance": 1})]
    kept = MemselCompressor().compress_documents(given, "q")
    assert given[0].metadata == {"importance": 1}
    assert set(kept[0].metadata) == {"importance", "composite_score"}
    assert MemselCompressor().compress_documents([], "q") == []


def test_in_a_compression_retriever_sync_and_async() -> None:
    now = datetime.now()
    _, retriever = store_with_scores(
        {
            "fresh and important": {"created_at": now, "importance": 1.0},
            "old and important": {"created_at": now - timedelta(days=90), "importance": 1.0},
            "old and trivial": {"created_at": now - timedelta(days=90), "importance": 0.0},
        }
    )
    config = memsel.SelectionConfig(relevance_weight=0.0, recency_weight=0.5, importance_weight=0.5)
    pipeline = ContextualCompressionRetriever(
        base_compressor=MemselCompressor(config=config), base_retriever=retriever
    )
    wanted = ["fresh and important", "old and important"]
    assert [document.id for document in pipeline.invoke("what matters?")] == wanted
    assert [document.id for document in asyncio.run(pipeline.ainvoke("what matters?"))] == wanted
    config.top_k = 1  # the config is read at every call
    assert [document.id for document in pipeline.invoke("what matters?")] == wanted[:1]


def test_relevance_decides_where_only_it_has_weight() -> None:
    texts = {f"note {number}": {} for number in range(20)}
    _, retriever = store_with_scores(texts)
    config = memsel.SelectionConfig(1.0, 0.0, 0.0, min_composite_score=-1.0, top_k=20)
    pipeline = ContextualCompressionRetriever(base_compressor=MemselCompressor(config=config), base_retriever=retriever)
    assert [d.id for d in pipeline.invoke("note 7")] == [d.id for d in retriever.invoke("note 7")]
    assert pipeline.invoke("note 7")[0].id == "note 7"


@wrong_values("created_at", "importance", "relevance_score")
def test_a_wrong_value_is_refused_by_document_and_key(key: str, value: Any, message: str) -> None:
    given = [Document(page_content="a"), Document(id="b7", page_content="b", metadata={key: value})]
    with pytest.raises(memsel.InputError) as raised:
        MemselCompressor().compress_documents(given, "q")
    assert str(raised.value).startswith(f"documents[1] (id 'b7'): {key} is ")
    assert str(raised.value).endswith(message)


def test_a_date_too_far_ahead_is_named_and_can_be_taken_for_new() -> None:
    never = datetime(9999, 12, 31, tzinfo=UTC)
    given = [Document(page_content="a"), Document(id="b7", page_content="b", metadata={"created_at": never})]
    with pytest.raises(OverflowError, match=r"documents\[1\] \(id 'b7'\): created_at is datetime.*clamp_future=True"):
        MemselCompressor().compress_documents(given, "q")
    clamping = MemselCompressor(config=memsel.SelectionConfig(clamp_future=True))
    assert [document.id for document in clamping.compress_documents(given, "q")] == [None, "b7"]


@pytest.mark.parametrize(("field", "error"), [("recency_half_life_hours", ZeroDivisionError), ("overflow", ValueError)])
def test_a_config_that_cannot_be_is_refused_as_by_the_selector(field: str, error: type[Exception]) -> None:
    config = memsel.SelectionConfig()
    setattr(config, field, 0)
    with pytest.raises(error, match=field):
        MemselCompressor(config=config).compress_documents([Document(page_content="a")], "q")


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of the process cannot be set here")
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/St_Johns"])
def test_a_date_without_a_zone_is_local_time_unless_it_is_said_to_be_utc(
    zone: str, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        naive = datetime.fromtimestamp(NOW - 3600.0)
        config = memsel.SelectionConfig(0.0, 1.0, 0.0, recency_half_life_hours=1.0, min_composite_score=0.0)
        for spelling in (naive, naive.isoformat()):
            given = [Document(page_content="a", metadata={"created_at": spelling})]
            assert MemselCompressor(config=config).compress_documents(given, "q")[0].metadata["composite_score"] == 0.5
        midnight = date(2023, 11, 14)
        given = [Document(page_content="a", metadata={"created_at": spelling}) for spelling in (midnight, "2023-11-14")]
        scores = {
            kept.metadata["composite_score"]
            for kept in MemselCompressor(config=config, naive_times="utc").compress_documents(given, "q")
        }
        assert scores == {math.exp(-math.log(2) * ((NOW - 1_699_920_000) / 3600))}
    finally:
        monkeypatch.undo()
        time.tzset()


def test_pydantic_writes_and_reads_it() -> None:
    compressor = MemselCompressor(
        config=memsel.SelectionConfig(top_k=3, overflow="stop", recency_from="accessed"), time_key="when"
    )
    assert MemselCompressor.model_validate(compressor.model_dump()) == compressor
    again = MemselCompressor.model_validate_json(compressor.model_dump_json())
    assert again == compressor
    assert type(again.config) is memsel.SelectionConfig
    assert compressor.model_copy().config is compressor.config
    with pytest.raises(ValidationError, match="Weights must sum to 1"):
        MemselCompressor(config={"relevance_weight": 3})
    with pytest.raises(ValidationError, match="tim_key"):
        MemselCompressor(tim_key="when")


# --- the time-weighted retriever ------------------------------------------------------------------------------------


class ScoringStore(InMemoryVectorStore):
    """The in-memory store with the conversion of its cosines to a relevance from 0 to 1 that LangChain asks for."""

    def _select_relevance_score_fn(self) -> Any:
        return lambda cosine: min(1.0, (1 + cosine) / 2)


def stores(**named: Any) -> list[Any]:
    """The original and memsel's, with the same memories, one hour apart."""
    made = []
    for cls in (TimeWeightedVectorStoreRetriever, MemselTimeWeightedRetriever):
        retriever = cls(vectorstore=ScoringStore(DeterministicFakeEmbedding(size=32)), k=3, **named)
        start = datetime.now() - timedelta(hours=10)
        for number in range(10):
            retriever.add_documents(
                [Document(page_content=f"note {number}", metadata={"importance": number % 2})],
                current_time=start + timedelta(hours=number),
            )
        made.append(retriever)
    return made


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_time_weighted_retriever_ranks_with_memsel_and_touches_what_it_returns(asynchronous: bool) -> None:
    original, ours = stores()
    before = datetime.now()
    for retriever in (original, ours):
        found = asyncio.run(retriever.ainvoke("note 4")) if asynchronous else retriever.invoke("note 4")
        assert len(found) == 3
        for document in found:
            assert retriever.memory_stream[document.metadata["buffer_idx"]] is document
            assert document.metadata["last_accessed_at"] >= before
        assert sum(document.metadata["last_accessed_at"] >= before for document in retriever.memory_stream) == 3


def test_the_time_weighted_ranking_is_the_selectors(clock: Any) -> None:
    _, ours = stores()
    scores = ours.get_salient_docs("note 4")
    clock.now = datetime.now().timestamp()
    entries = [
        memsel.MemoryEntry(
            document.page_content, 0.0, memsel.MemoryType.EPISODIC, importance=document.metadata["importance"],
            metadata={"id": number}, last_access=document.metadata["last_accessed_at"].timestamp(),
        )
        for number, (document, _) in scores.items()
    ]  # fmt: skip
    config = memsel.SelectionConfig(top_k=3, recency_from="accessed")
    wanted = memsel.MemorySelector(config).select_entries("q", entries, {n: score for n, (_, score) in scores.items()})
    assert sorted(scores) == list(range(10))
    assert [document.page_content for document in ours.invoke("note 4")] == [entry.content for entry in wanted]


def test_a_memory_that_the_store_did_not_find_has_no_relevance() -> None:
    _, ours = stores(search_kwargs={"k": 1})
    ours.config = memsel.SelectionConfig(1.0, 0.0, 0.0, min_composite_score=0.0)
    assert [document.page_content for document in ours.invoke("note 4")] == ["note 4", "note 7", "note 8"]
    ours.config.min_composite_score = 0.1
    assert [document.page_content for document in ours.invoke("note 4")] == ["note 4"]


def test_settings_of_the_other_ranking_are_refused() -> None:
    store = ScoringStore(DeterministicFakeEmbedding(size=8))
    with pytest.raises(ValidationError, match="recency_half_life_hours"):
        MemselTimeWeightedRetriever(vectorstore=store, decay_rate=0.5)
    with pytest.raises(ValidationError, match="importance_key"):
        MemselTimeWeightedRetriever(vectorstore=store, other_score_keys=["importance"])


# --- the middleware -------------------------------------------------------------------------------------------------


class Model(GenericFakeChatModel):
    """LangChain's scripted model, which also takes tools and remembers what it was sent."""

    seen: list[Any] = Field(default_factory=list)

    def bind_tools(self, tools: Any, **named: Any) -> Any:
        return self

    def _generate(self, messages: Any, *args: Any, **named: Any) -> Any:
        self.seen.append(messages)
        return super()._generate(messages, *args, **named)


def agent(middleware: MemselMiddleware, retriever: Any) -> tuple[Model, Any]:
    script = [
        AIMessage("", tool_calls=[{"name": "recall", "args": {"query": "note 3"}, "id": "1"}]),
        AIMessage("", tool_calls=[{"name": "recall", "args": {"query": "note 5"}, "id": "2"}]),
        AIMessage("done"),
    ]
    model = Model(messages=iter(script))
    tool = create_retriever_tool(retriever, "recall", "Recalls.", response_format="content_and_artifact")
    return model, create_agent(model, tools=[tool], middleware=[middleware])


def vector_retriever() -> Any:
    store, _ = store_with_scores({f"note {number}": {"importance": number / 10} for number in range(8)})
    return store.as_retriever(search_kwargs={"k": 8})


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_agents_model_sees_the_memories_that_fit_and_the_state_keeps_all(asynchronous: bool) -> None:
    config = memsel.SelectionConfig(0.0, 0.0, 1.0, token_budget=4, min_composite_score=0.0)
    model, made = agent(MemselMiddleware(MemselCompressor(config=config), separator=" / "), vector_retriever())
    asked = {"messages": [HumanMessage("what do you know?")]}
    state = asyncio.run(made.ainvoke(asked)) if asynchronous else made.invoke(asked)
    first, second, third = model.seen
    assert [message.content for message in first] == ["what do you know?"]
    tool_messages = [message for message in second if isinstance(message, ToolMessage)]
    assert [message.content for message in tool_messages] == ["note 7 / note 6 / note 5 / note 4"]
    assert [document.page_content for document in tool_messages[0].artifact] == ["note 7", "note 6", "note 5", "note 4"]
    # Both retrievals share the budget: equal memories of the earlier come first.
    contents = [message.content for message in third if isinstance(message, ToolMessage)]
    assert contents == ["note 7 / note 6", "note 7 / note 6"]
    kept = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    assert [len(message.artifact) for message in kept] == [8, 8]
    assert all(len(message.content.split("\n\n")) == 8 for message in kept)


def test_a_message_that_loses_nothing_or_is_no_retrieval_is_left_as_it_is() -> None:
    memories = [Document(page_content="a"), Document(page_content="b")]
    messages = [
        HumanMessage("q"),
        ToolMessage("as the tool wrote it", tool_call_id="1", name="recall", artifact=memories),
        ToolMessage("42", tool_call_id="2", name="add", artifact=[40, 2]),
        ToolMessage("plain", tool_call_id="3", name="add"),
    ]
    trimmed = MemselMiddleware()._trimmed(messages)
    assert all(new is old for new, old in zip(trimmed, messages, strict=True))
    nothing = MemselCompressor(config=memsel.SelectionConfig(top_k=0))
    assert MemselMiddleware(nothing)._trimmed(messages)[1].content == "No memory was selected."
    assert messages[1].content == "as the tool wrote it"
    assert MemselMiddleware(nothing, tools=["other"])._trimmed(messages)[1] is messages[1]
    assert MemselMiddleware(nothing, tools=["recall"])._trimmed(messages)[1].artifact == []


def test_a_wrong_value_ends_the_agents_run_with_its_name() -> None:
    store, _ = store_with_scores({"a": {"importance": "very"}})
    _, made = agent(MemselMiddleware(), store.as_retriever())
    with pytest.raises(memsel.InputError, match=r"documents\[0\] \(id 'a'\): importance is 'very'"):
        made.invoke({"messages": [HumanMessage("q")]})


# --- the package ----------------------------------------------------------------------------------------------------


def test_the_example_runs() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True, env=env)
    assert len(done.stdout.splitlines()) == 3
    assert len(EXAMPLE.read_text("utf-8").splitlines()) < 40
