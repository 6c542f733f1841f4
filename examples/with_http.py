"""Start memsel's HTTP server on a free port and ask it.

pip install 'memsel[cli,serve]' && python examples/with_http.py
"""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

MEMORIES = Path(__file__).parent / "memories.jsonl"
COMMAND = [sys.executable, "-m", "memsel", "serve", "--port", "0"]


def ask(url: str, question: dict) -> dict:
    request = urllib.request.Request(url, json.dumps(question).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def main() -> None:
    memories = [json.loads(line) for line in MEMORIES.read_text(encoding="utf-8").splitlines()]
    with subprocess.Popen(COMMAND, stderr=subprocess.PIPE, text=True) as server:
        try:
            url = server.stderr.readline().split()[4]
            question = {"query": "Which database did we decide on?", "memories": memories, "scope": "domain:code"}
            answer = ask(f"{url}/v1/select", {**question, "max_results": 3})
        finally:
            server.terminate()
    for kept in answer["selected"]:
        print(f"{kept['score']:.3f}  {kept['id']}: {kept['text'][:70]}")
    print(f"{len(answer['dropped'])} dropped, {answer['out_of_scope']} of other scopes")


if __name__ == "__main__":
    main()
