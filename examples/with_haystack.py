"""memsel in a Haystack pipeline, on an in-memory store: run `python with_haystack.py`."""

import json
from pathlib import Path

from haystack import Document, Pipeline
from haystack.components.embedders import MockDocumentEmbedder, MockTextEmbedder
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from memsel import SelectionConfig
from memsel.adapters.haystack import MemselRanker

memories = map(json.loads, (Path(__file__).parent / "memories.jsonl").read_text("utf-8").splitlines())
documents = [
    Document(
        id=memory["id"],
        content=memory["content"],
        meta={"created_at": memory["timestamp"], "importance": memory["importance"]},
    )
    for memory in memories
]
store = InMemoryDocumentStore()
store.write_documents(MockDocumentEmbedder().run(documents)["documents"])  # put your embedders here and below

pipeline = Pipeline()
pipeline.add_component("embedder", MockTextEmbedder())
pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=20, scale_score=True))
pipeline.add_component("ranker", MemselRanker(SelectionConfig(top_k=3, token_budget=200)))
pipeline.connect("embedder.embedding", "retriever.query_embedding")
pipeline.connect("retriever", "ranker")
for document in pipeline.run({"embedder": {"text": "how is the data stored?"}})["ranker"]["documents"]:
    print(f"{document.score:.3f}", document.id, document.content, sep="  ")
