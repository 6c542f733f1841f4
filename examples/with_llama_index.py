"""memsel behind a LlamaIndex query engine, on an in-memory index: run `python with_llama_index.py`."""

import json
from pathlib import Path

from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode

from memsel import SelectionConfig
from memsel.adapters.llama_index import MemselPostprocessor

memories = map(json.loads, (Path(__file__).parent / "memories.jsonl").read_text("utf-8").splitlines())
nodes = [
    TextNode(
        id_=memory["id"],
        text=memory["content"],
        metadata={"date": memory["timestamp"], "importance": memory["importance"]},
        excluded_llm_metadata_keys=["date", "importance"],  # they are for the ranking, not for the prompt
        excluded_embed_metadata_keys=["date", "importance"],
    )
    for memory in memories
]
index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=8))  # put your models here and below

engine = index.as_query_engine(
    llm=MockLLM(),
    similarity_top_k=20,
    node_postprocessors=[MemselPostprocessor(config=SelectionConfig(top_k=3, token_budget=200))],
)
for scored in engine.query("how is the data stored?").source_nodes:
    print(f"{scored.score:.3f}", scored.node.node_id, scored.node.get_content(), sep="  ")
