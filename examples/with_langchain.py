"""memsel behind a LangChain retriever, on an in-memory store: run `python with_langchain.py`."""

import json
from pathlib import Path

from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import chain
from langchain_core.vectorstores import InMemoryVectorStore

from memsel import SelectionConfig
from memsel.adapters.langchain import MemselCompressor

memories = map(json.loads, (Path(__file__).parent / "memories.jsonl").read_text("utf-8").splitlines())
store = InMemoryVectorStore(DeterministicFakeEmbedding(size=64))  # put your embeddings here
store.add_documents(
    [
        Document(
            id=memory["id"],
            page_content=memory["content"],
            metadata={"created_at": memory["timestamp"], "importance": memory["importance"]},
        )
        for memory in memories
    ]
)


@chain
def with_scores(query: str) -> list[Document]:
    found = store.similarity_search_with_score(query, k=20)
    return [doc.model_copy(update={"metadata": {**doc.metadata, "relevance_score": s}}) for doc, s in found]


compressor = MemselCompressor(config=SelectionConfig(top_k=3, token_budget=200))
retriever = ContextualCompressionRetriever(base_compressor=compressor, base_retriever=with_scores)
for document in retriever.invoke("how is the data stored?"):
    print(f"{document.metadata['composite_score']:.3f}", document.id, document.page_content, sep="  ")
