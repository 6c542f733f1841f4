"""Ask memsel's MCP server, started as a client would start it, with the SDK's own client.

pip install 'memsel[cli,mcp]' && python examples/with_mcp.py
"""

import asyncio
import json
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters

MEMORIES = Path(__file__).parent / "memories.jsonl"
SERVER = StdioServerParameters(command=sys.executable, args=["-m", "memsel", "mcp"])


async def main() -> None:
    memories = [json.loads(line) for line in MEMORIES.read_text(encoding="utf-8").splitlines()]
    async with Client(SERVER) as client:
        for tool in (await client.list_tools()).tools:
            print(f"tool {tool.name}: {tool.title}")
        question = {
            "query": "Which database did we decide on?",
            "memories": memories,
            "scope": "domain:code",
            "max_results": 3,
        }
        answer = (await client.call_tool("memory_select", question)).structured_content
    for kept in answer["selected"]:
        print(f"{kept['score']:.3f}  {kept['id']}: {kept['text'][:70]}")
    print(f"{len(answer['dropped'])} dropped, {answer['out_of_scope']} of other scopes")


if __name__ == "__main__":
    asyncio.run(main())
