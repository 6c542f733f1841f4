"""The command: what it prints, what it refuses, and that no text of a memory reaches the terminal raw."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import subprocess
import sys
import types
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

import memsel
from memsel import MemorySelector, SelectionConfig
from memsel.cli.command import memsel as command
from memsel.cli.report import json_bytes, visible
from memsel.files import entry_from
from memsel.policy import MemorySelectSettings, memory_select
from memsel.tokens import ScriptTokenEstimator

EXAMPLES = Path(__file__).parent.parent / "examples"
MEMORIES = str(EXAMPLES / "memories.jsonl")
SCORES = str(EXAMPLES / "scores.json")
BELIEFS = Path(__file__).parent.parent.parent / "shared/data/precisionmembench/beliefs.seed.embedded.json"
NOW = "2026-10-08T00:00Z"
NOW_SECONDS = 1_791_417_600.0


def run(*args: str, stdin: bytes | str | None = None, columns: int | None = None):
    env = {"COLUMNS": None if columns is None else str(columns), "NO_COLOR": None, "FORCE_COLOR": None}
    return CliRunner(env=env).invoke(command, list(args), input=stdin, prog_name="memsel")


def spawn(*args: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR")}
    return subprocess.run([sys.executable, "-m", "memsel", *args], input=stdin, capture_output=True, env=clean | env)


def composite(*args: str, **more: object):
    result = run("select", *args, "--policy", "composite", "--now", NOW, **more)
    assert result.exit_code == 0, result.output
    return result


def memory(content: object = "x", **more: object) -> dict[str, object]:
    return {"id": "a", "content": content, "timestamp": NOW_SECONDS, **more}


def lines_of(*memories: dict[str, object]) -> bytes:
    return "\n".join(json.dumps(one) for one in memories).encode()


# --- the face


def test_version_is_the_packages():
    assert run("--version").stdout == f"memsel {memsel.__version__}\n"
    assert spawn("--version").stdout.decode().split() == ["memsel", memsel.__version__]


def test_every_member_of_both_policies_is_an_option_and_help_names_its_default():
    text = " ".join(run("select", "--help").stdout.split())
    members = {
        field.name: (policy, field.default)
        for policy, settings in (("memory-select", MemorySelectSettings), ("composite", SelectionConfig))
        for field in dataclasses.fields(settings)
        # Groups of words are for the settings file.
        if field.init and field.name != "conflicts"
    }
    for name, (policy, default) in members.items():
        shown = {True: "on", False: "off"}[default] if isinstance(default, bool) else str(default)
        shown = {"importance_weight": "0.3 with composite, 0.2 with memory-select", "token_counter": "quarter"}.get(
            name, shown
        )
        flag = re.escape("--" + name.replace("_", "-"))
        assert re.search(rf"{flag}\b.{{0,140}}? \[default: {re.escape(shown)}\]", text), name
        section = text.partition("With --policy memory-select:")[2].partition("With --policy composite:")
        if name not in ("relevance_weight", "importance_weight", "redact", "token_counter"):
            assert flag.replace("\\", "") + " " in section[0 if policy == "memory-select" else 2], name


def test_without_click_or_rich_the_command_says_which_extra_holds_them():
    for missing in ("click", "rich"):
        code = f"import sys; sys.modules[{missing!r}] = None; from memsel.cli import main; main()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"memsel: the command line needs {missing}; install it with: pip install 'memsel[cli]'\n"
        )


def test_json_output_and_help_never_import_rich_nor_tables():
    code = (
        "import sys; from memsel.cli.command import memsel\n"
        f"memsel(['select', {MEMORIES!r}, '--query', 'q', '--format', 'json'], standalone_mode=False)\n"
        "assert 'rich.console' not in sys.modules and 'rich.text' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_the_library_does_not_import_the_command():
    code = "import memsel, sys; assert not {'click', 'rich', 'memsel.cli', 'memsel.files'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


# --- the selection is the library's


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ((), {}),
        (("--top-k", "3"), {"top_k": 3}),
        (("--token-budget", "60"), {"token_budget": 60}),
        (("--token-budget", "60", "--overflow", "stop"), {"token_budget": 60, "overflow": "stop"}),
        (("--min-composite-score", "0.58"), {"min_composite_score": 0.58}),
        (
            ("--relevance-weight", "0.2", "--recency-weight", "0.5", "--recency-half-life-hours", "336"),
            {"relevance_weight": 0.2, "recency_weight": 0.5, "recency_half_life_hours": 336.0},
        ),
        (
            ("--recency-from", "accessed", "--recency-half-life-hours", "100", "--clamp-future"),
            {"recency_from": "accessed", "recency_half_life_hours": 100.0, "clamp_future": True},
        ),
        (
            ("--relevance-weight", "0", "--recency-weight", "0", "--importance-weight", "1"),
            {"relevance_weight": 0.0, "recency_weight": 0.0, "importance_weight": 1.0},
        ),
    ],
)
@pytest.mark.parametrize("moment", [NOW, str(NOW_SECONDS), "2026-10-08T05:30:00+05:30"])
def test_the_answer_is_that_of_the_selector_with_the_same_config(options, config, moment):
    result = run("select", MEMORIES, "--scores", SCORES, "--format", "json", "--now", moment, *options)
    entries = [entry_from(json.loads(line), "", NOW_SECONDS) for line in Path(MEMORIES).read_text("utf-8").splitlines()]
    scores = json.loads(Path(SCORES).read_text("utf-8"))
    expected = MemorySelector(SelectionConfig(**config)).select("", entries, scores, now=NOW_SECONDS)
    found = json.loads(result.stdout)
    assert expected
    assert [
        (row["id"], row["score"], row["relevance"], row["recency"], row["importance"]) for row in found["selected"]
    ] == [
        (row.entry.id, row.composite_score, row.relevance_score, row.recency_score, row.importance_score)
        for row in expected
    ]
    assert [row["rank"] for row in found["selected"]] == list(range(1, len(expected) + 1))
    assert found["total_tokens"] == sum(row["tokens"] for row in found["selected"])
    assert sum(found["dropped_counts"].values()) == len(entries) - len(expected)


def test_the_clock_is_read_when_now_is_not_given(monkeypatch):
    monkeypatch.setattr("time.time", lambda: NOW_SECONDS)
    arguments = (MEMORIES, "--policy", "composite", "--format", "json")
    assert run("select", *arguments).stdout == composite(MEMORIES, "--format", "json").stdout


def test_audit_lists_every_dropped_memory_with_its_outcome():
    options = (MEMORIES, "--scores", SCORES, "--audit", "--top-k", "4", "--token-budget", "45",
               "--min-composite-score", "0.56", "--overflow", "skip")  # fmt: skip
    found = json.loads(composite(*options, "--format", "json").stdout)
    rows = [json.loads(line) for line in composite(*options, "--format", "jsonl").stdout.splitlines()]
    assert rows == found["selected"] + found["dropped"]
    assert len({row["id"] for row in rows}) == len(rows) == 35
    outcomes = [row["outcome"] for row in found["dropped"]]
    assert {name: outcomes.count(name) for name in found["dropped_counts"]} == found["dropped_counts"]
    assert set(outcomes) == {"below_min_score", "over_budget"}
    assert [row["score"] for row in found["dropped"]] == sorted(
        (row["score"] for row in found["dropped"]), reverse=True
    )
    table = composite(*options).stdout
    for row in rows:
        assert re.search(rf"\b{row['id']}\b", table)
        assert row["outcome"] == "kept" or f"{row['outcome']}  {row['content']}" in table


def test_integer_ids_find_their_scores_and_stay_integers(tmp_path):
    (tmp_path / "s.json").write_text('{"7": 0.9, "8": 0.1}')
    done = composite("-", "--scores", str(tmp_path / "s.json"), "--format", "jsonl",
                     stdin=lines_of(memory(id=8), memory(id=7)))  # fmt: skip
    assert [(row["id"], row["relevance"]) for row in map(json.loads, done.stdout.splitlines())] == [(7, 0.9), (8, 0.1)]
    assert done.stderr == ""


# --- memory-select

QUESTION = "What happens when Redis is down?"
ASKED = (MEMORIES, "--query", QUESTION, "--scope", "domain:code")


def asked(*args: str, **more: object):
    result = run("select", *args, "--now", NOW, **more)
    assert result.exit_code == 0, result.output
    return result


def example_memories() -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(MEMORIES).read_text("utf-8").splitlines()]


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ((), {}),
        (("--policy", "memory-select"), {}),
        (("--max-results", "1"), {"max_results": 1}),
        (("--max-tokens", "30"), {"max_tokens": 30}),
        (("--min-relevance", "0"), {"min_relevance": 0}),
        (("--min-relevance", "0", "--dedupe", "0.1"), {"min_relevance": 0, "dedupe": 0.1}),
        (("--min-relevance", "0", "--recency-days", "2"), {"min_relevance": 0, "recency_days": 2}),
        (
            ("--relevance-weight", "0.1", "--freshness-weight", "0.2", "--importance-weight", "3"),
            {"relevance_weight": 0.1, "freshness_weight": 0.2, "importance_weight": 3},
        ),
        (("--no-guard", "--dedupe", "0.05"), {"guard": False, "dedupe": 0.05}),
    ],
)
def test_the_answer_is_that_of_memory_select_with_the_same_settings(options, settings):
    moment = datetime.fromtimestamp(NOW_SECONDS, UTC)
    expected = memory_select(QUESTION, example_memories(), settings=settings, scope="domain:code", now=moment)
    assert expected.selected
    answer = json.loads(asked(*ASKED, "--format", "json", *options).stdout)
    assert answer == {"policy": "memory-select", **expected.to_dict()}
    lines = asked(*ASKED, "--format", "jsonl", *options).stdout.splitlines()
    assert [json.loads(line) for line in lines] == answer["selected"]
    lines = asked(*ASKED, "--format", "jsonl", "--audit", *options).stdout.splitlines()
    assert [json.loads(line) for line in lines] == answer["selected"] + answer["dropped"]


def test_scores_choose_composite_unless_a_policy_is_named():
    assert json.loads(asked(MEMORIES, "--scores", SCORES, "--format", "json").stdout)["policy"] == "composite"
    scored = asked(*ASKED, "--scores", SCORES, "--policy", "memory-select", "--similarity-weight", "1",
                   "--format", "json")  # fmt: skip
    similarity = json.loads(Path(SCORES).read_text("utf-8"))
    memories = [{**one, "similarity": similarity[one["id"]]} for one in example_memories()]
    expected = memory_select(
        QUESTION, memories, settings={"similarity_weight": 1}, scope="domain:code",
        now=datetime.fromtimestamp(NOW_SECONDS, UTC),
    )  # fmt: skip
    assert json.loads(scored.stdout) == {"policy": "memory-select", **expected.to_dict()}
    assert any("similarity=" in reason for row in expected.selected for reason in row.reasons)


def test_the_query_of_the_file_is_used_unless_one_is_given():
    text = json.dumps({"query": "redis", "memories": [{"id": "r", "text": "redis"}, {"id": "k", "text": "kafka"}]})
    assert [row["id"] for row in json.loads(asked("-", "--format", "json", stdin=text).stdout)["selected"]] == ["r"]
    answer = json.loads(asked("-", "--query", "kafka", "--format", "json", stdin=text).stdout)
    assert [row["id"] for row in answer["selected"]] == ["k"]


def test_a_settings_file_is_read_and_an_option_goes_before_it(tmp_path):
    path = tmp_path / "memsel.toml"
    path.write_text("[memory-select]\nmax_results = 1\nmin_relevance = 0\n", "utf-8")
    settings = {"max_results": 2, "min_relevance": 0}
    moment = datetime.fromtimestamp(NOW_SECONDS, UTC)
    expected = memory_select(QUESTION, example_memories(), settings=settings, scope="domain:code", now=moment)
    answer = asked(*ASKED, "--settings", str(path), "--max-results", "2", "--format", "json")
    assert json.loads(answer.stdout) == {"policy": "memory-select", **expected.to_dict()}
    assert len(json.loads(asked(*ASKED, "--settings", str(path), "--format", "json").stdout)["selected"]) == 1
    path.write_text("[memory-select]\nmax_result = 1\n", "utf-8")
    done = run("select", *ASKED, "--settings", str(path))
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{path}: [memory-select]: settings has an unknown member 'max_result'" in done.stderr


def test_the_printed_selection_of_the_example():
    assert asked(*ASKED, columns=80).stdout.splitlines() == [
        "#  id                    score  tokens",
        "1  b-auth-depends-redis  0.654      25",
        "   Auth service depends on Redis for session storage. If Redis is down, auth",
        "   fails open (denies all).",
        "   relevance=0.50  recency=0.78  importance=0.85",
        "2  b-redis-code          0.478      22",
        "   Redis is used as a cache and rate-limiter in the backend. Single-node, not",
        "   clustered.",
        "   relevance=0.50  recency=0.16  importance=0.90",
        "",
        "kept 2 of 35, 47 of 4000 tokens",
        "  low_relevance  15  b-ts-pref, b-fastify-pref, b-mongo-raw-driver and 12 more",
        "  out_of_scope   13  b-comm-response-length, b-comm-pushback and 11 more",
        "  expired         5  b-sqlalchemy-superseded, b-hosting-resolved and 3 more",
    ]


def test_duplicates_are_named_with_what_they_repeat():
    twins = [{"id": name, "text": "the settings page uses a dark theme"} for name in ("a", "b")]
    done = asked("-", "--query", "theme", stdin=json.dumps(twins))
    assert done.stdout.splitlines()[-1] == "  duplicate_of  1  b of a"


def test_who_names_no_scope_is_told_which_there_are():
    done = asked(MEMORIES, "--query", QUESTION)
    assert "kept 0 of 35" in done.stdout
    assert done.stderr == (
        "note: no memory has the scope 'default'; choose one of these with --scope: 'domain:code' (22), "
        "'domain:writing' (7), 'user:universal' (5), 'other-user' (1)\n"
    )
    assert asked(*ASKED).stderr == ""


@pytest.mark.parametrize(
    ("options", "stdin", "message"),
    [
        ((), lines_of(memory()), "--query is missing, and FILE has none; only --policy composite does without"),
        (("--query", "q", "--top-k", "3"), b"", "--top-k belongs to --policy composite; this selection uses"),
        (("--policy", "composite", "--scope", "s"), b"", "--scope belongs to --policy memory-select; this selection"),
        (("--query", "q", "--max-results", "0"), lines_of(memory()), "max_results is 0; expected an integer from 1"),
        (("--query", "q", "--min-relevance", "1.5"), lines_of(memory()), "min_relevance is 1.5; expected a number fr"),
        (("--query", "q", "--scope", ""), lines_of(memory()), "scope is ''; expected a text that is not empty"),
        (("--query", "q", "--settings", "nowhere.toml"), lines_of(memory()), "cannot read nowhere.toml: No such file"),
        (("--query", "q", "--now", "1e300"), lines_of(memory()), "--now is 1e+300; expected a time within the years"),
        (
            ("--query", "q"), lines_of({"id": "a", "text": "x"}, {"id": "b", "text": "x", "importance": 7}),
            "Error: standard input, line 2 (id 'b'): importance is 7; expected a number from 0 to 1",
        ),
        (
            ("--query", "q"), json.dumps([{"id": "a", "text": "x"}, {"id": "b", "text": "x", "scope": ""}]).encode(),
            "Error: standard input, [1] (id 'b'): scope is ''; expected a text that is not empty",
        ),
        (
            ("--query", "q"), lines_of({"id": "a", "text": "x"}, {"id": "b", "created_at": 5, "text": "x"}),
            "Error: standard input, line 2 (id 'b'): created_at is 5, a number, which may be seconds or milliseconds",
        ),
        (("--query", "q"), lines_of({"text": "x"}), "Error: standard input, line 1: id is missing; expected a text"),
    ],
)  # fmt: skip
def test_wrong_input_of_memory_select_ends_with_status_2_and_says_where(options, stdin, message):
    done = run("select", "-", *options, stdin=stdin)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


# --- secrets

SECRET = "hunter2-" + "Zq81xK"


@pytest.mark.parametrize("policy", ["composite", "memory-select"])
@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
def test_no_secret_is_printed_unless_that_is_asked_for(policy, output):
    kept, dropped = memory(f"deploy with password={SECRET} please", id="k"), memory(f"password: {SECRET}x", id="d")
    arguments = ("-", "--policy", policy, "--query", "deploy", "--audit", "--format", output)
    arguments += ("--max-results", "1") if policy == "memory-select" else ("--top-k", "1")
    done = asked(*arguments, stdin=lines_of(kept, dropped))
    assert SECRET not in done.stdout
    assert "[REDACTED_PASSWORD]" in done.stdout
    assert SECRET in asked(*arguments, "--no-redact", stdin=lines_of(kept, dropped)).stdout


def test_secrets_in_structured_content_and_in_error_messages_are_hidden_too():
    structured = memory({"input": "deploy", "login": {"password": SECRET}})
    for output in ("table", "json"):
        assert SECRET not in composite("-", "--format", output, stdin=lines_of(structured)).stdout
    done = run("select", "-", "--policy", "composite", stdin=lines_of(memory(timestamp=f"password={SECRET}")))
    assert done.exit_code == 2
    assert SECRET not in done.stderr


# --- token counters


@pytest.mark.parametrize("policy", ["composite", "memory-select"])
def test_tokens_are_counted_as_asked(policy):
    chinese = "记忆选择器会选择最好的记忆。" * 20
    stdin = lines_of(memory(chinese))

    def tokens(*options: str) -> int:
        done = asked("-", "--policy", policy, "--query", "q", "--format", "json", *options, stdin=stdin)
        return json.loads(done.stdout)["selected"][0]["tokens"]

    quarter = len(chinese) // 4
    assert tokens() == tokens("--token-counter", "quarter") == quarter
    assert tokens("--token-counter", "scripts") == ScriptTokenEstimator().count(chinese) > 2 * quarter


def test_tiktoken_counts_with_the_encoding_that_is_named(monkeypatch):
    encodings = []

    class Encoding:
        def encode(self, text: str, **options: object) -> list[str]:
            return text.split()

        def encode_batch(self, texts: list[str], **options: object) -> list[list[str]]:
            return [text.split() for text in texts]

    def get_encoding(name: str) -> Encoding:
        encodings.append(name)
        if name == "none":
            raise ValueError("no such\nencoding")
        return Encoding()

    monkeypatch.setitem(sys.modules, "tiktoken", types.SimpleNamespace(get_encoding=get_encoding))
    for name in ("tiktoken", "tiktoken:cl100k_base"):
        done = composite("-", "--token-counter", name, "--format", "json", stdin=lines_of(memory("three short words")))
        assert json.loads(done.stdout)["selected"][0]["tokens"] == 3
    assert encodings == ["o200k_base", "cl100k_base"]
    done = run("select", MEMORIES, "--token-counter", "tiktoken:none")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("'tiktoken:none' cannot be used: no such encoding\n")
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    done = run("select", MEMORIES, "--token-counter", "tiktoken")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "'tiktoken' cannot be used: TiktokenCounter needs tiktoken: pip install 'memsel[tiktoken]'" in done.stderr
    assert "is not quarter, scripts, tiktoken" in run("select", MEMORIES, "--token-counter", "words").stderr


# --- notes on standard error


def test_without_scores_a_note_says_that_the_query_has_no_effect():
    done = composite(MEMORIES, "--query", "databases", "--format", "json")
    assert done.stderr == (
        "note: no scores given: relevance is neutral (0.5 for every memory), and the query has no effect\n"
    )
    assert done.stdout == composite(MEMORIES, "--format", "json").stdout
    assert composite(MEMORIES, "--scores", SCORES).stderr == ""


def test_scores_without_memory_and_memories_without_score_are_counted(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"a": 1, "gone": 0.5, "\x1b[0m": 0.5}))
    done = composite("-", "--scores", str(tmp_path / "s.json"), stdin=lines_of(memory(), memory(id="b")))
    assert done.stderr.splitlines() == [
        "note: 2 of 3 scores belong to no memory of the file: 'gone', '\\x1b[0m'",
        "note: 1 of 2 memories have no score; their relevance is the neutral 0.5",
    ]


def test_an_empty_file_is_no_error_and_is_said():
    done = composite("-", stdin=b"")
    assert (done.stdout, done.stderr) == ("kept 0 of 0, 0 of 3000 tokens\n", "note: standard input holds no memory\n")
    done = run("select", "-", "--query", "q", stdin=b"")
    assert (done.stdout, done.stderr) == ("kept 0 of 0, 0 of 4000 tokens\n", "note: standard input holds no memory\n")


# --- wrong input: one line, status 2


@pytest.mark.parametrize(
    ("options", "stdin", "message"),
    [
        (("nowhere.jsonl",), b"", "cannot read nowhere.jsonl: No such file or directory"),
        (("-",), b'{"query": "q"}', "standard input, line 1: memories is missing"),
        (("-",), lines_of(memory(), memory(timestamp="x")), "standard input, line 2: timestamp is 'x'; expected"),
        (("-",), lines_of(memory(tags=["\x1b[31m", 5])), "standard input, line 1: tags is an array; expected"),
        (("-",), lines_of(memory(importance="\x1b[31m\u202e")), r"importance is '\x1b[31m\u202e'; expected"),
        (("-",), b"\xef\xbb\xbf[}", "standard input, line 1, column 2: invalid character"),
        (("-",), b'{"content": "\xff"}', "standard input, line 1: not UTF-8 text"),
        (("-",), b"[" * 100_000, "standard input, line 1: nested too deeply"),
        (("-",), lines_of(memory(id="late", timestamp=NOW_SECONDS * 1000)), "entry 'late' has timestamp"),
        (("-", "--scores", "nowhere.json"), b"", "cannot read nowhere.json: No such file or directory"),
        (("-", "--scores", MEMORIES), b"", "memories.jsonl, line 2, column 2: trailing characters"),
        (("-", "--recency-half-life-hours", "0"), lines_of(memory()), "--recency-half-life-hours is 0; expected"),
        (
            ("-", "--relevance-weight", "0.9"), lines_of(memory()),
            "Weights must sum to 1.0, got 1.400 "
            "(--relevance-weight 0.9, --recency-weight 0.2, --importance-weight 0.3)",
        ),
        (("-", "--relevance-weight", "nan"), b"", "'nan' is no number"),
        (("-", "--top-k", "2.5"), b"", "'2.5' is not a valid integer"),
        (("-", "--now", "2026-10-08"), b"", "the time is '2026-10-08', without a time zone; expected one, such as Z"),
        (("-", "--now", "inf"), b"", "'inf' is no moment"),
        (("-", "--now", "soon"), b"", "the time is 'soon'; expected ISO-8601, such as 2026-01-15T12:00:00Z"),
    ],
)  # fmt: skip
def test_wrong_input_ends_with_status_2_and_says_where(options, stdin, message):
    done = run("select", *options, "--policy", "composite", stdin=stdin)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert re.sub(r"\n", "", done.stderr).isprintable()


def test_a_folder_is_no_file(tmp_path):
    done = run("select", str(tmp_path))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: cannot read ")


@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
def test_output_that_nobody_reads_ends_quietly(output):
    reading, writing = os.pipe()
    os.close(reading)
    arguments = [sys.executable, "-m", "memsel", "select", MEMORIES, "--query", "redis", "--scope", "domain:code"]
    done = subprocess.run([*arguments, "--format", output], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.stderr == b""


def test_half_read_output_ends_quietly(tmp_path):
    path = tmp_path / "many.jsonl"
    path.write_bytes(lines_of(*[memory("x" * 200)] * 5000))
    for output in ("table", "json", "jsonl"):
        arguments = ["select", str(path), "--policy", "composite", "--top-k", "5000", "--format", output]
        arguments += ["--token-budget", "1000000"]
        with subprocess.Popen(
            [sys.executable, "-m", "memsel", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout.read(10)
            process.stdout.close()
            errors = process.stderr.read().decode()
        assert [line for line in errors.splitlines() if not line.startswith("note: ")] == []


# --- text of a memory on a terminal

HOSTILE = "bad \ud83d half \xa0 中文 \x1b[31mred\x07\r\n\n\x9b2Jgone \u202egnp \U000e0041 \x7f\u2028end"


def test_control_characters_are_escaped_and_line_breaks_flattened():
    assert visible(HOSTILE) == r"bad \ud83d half 中文 \x1b[31mred\x07 \x9b2Jgone \u202egnp \U000e0041 \x7f end"


@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "gbk", "ascii"])
@pytest.mark.parametrize("policy", ["composite", "memory-select"])
def test_hostile_text_is_printed_in_any_encoding_and_never_raw(output, encoding, policy):
    hostile = {"query": "half", "memories": [memory(HOSTILE, id=f"id {HOSTILE}"), memory("y" * 400, id="y")]}
    limit = "--max-results" if policy == "memory-select" else "--top-k"
    arguments = ("select", "-", "--policy", policy, "--audit", limit, "1", "--format", output)
    done = spawn(*arguments, stdin=json.dumps(hostile).encode(), PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    # JSON is UTF-8 by its own rules, whatever the terminal's encoding is.
    text = done.stdout.decode(encoding if output == "table" else "utf-8")
    assert text.replace("\n", "").replace("\xa0", "").isprintable()
    assert "Traceback" not in done.stderr.decode(encoding)
    if output == "jsonl":
        records = [json.loads(line) for line in text.splitlines()]
        assert HOSTILE in {record.get("content", record.get("text")) for record in records}
        assert {record["id"] for record in records} == {f"id {HOSTILE}", "y"}


def test_json_has_null_for_nan_and_infinity():
    assert (
        json_bytes({"a": [float("nan"), {"b": float("-inf")}], "c": 1.5}) == b'{"a": [null, {"b": null}], "c": 1.5}\n'
    )


def test_an_infinite_score_is_null_in_json():
    far = memory(timestamp=-1e306, id="old"), memory(timestamp=NOW_SECONDS + 1e6, id="new")
    done = composite("-", "--format", "json", "--audit", "--recency-half-life-hours", "-1e-300", stdin=lines_of(*far))
    found = json.loads(done.stdout, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    assert [(row["id"], row["score"]) for row in found["selected"]] == [("old", None), ("new", 0.4)]


# --- the table at several widths


@pytest.mark.parametrize("columns", [200, 100, 80, 60, 40])
def test_the_table_fits_the_width_and_cuts_no_id(columns):
    done = composite(MEMORIES, "--scores", SCORES, "--audit", "--token-budget", "100", columns=columns)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= columns
    for line in Path(MEMORIES).read_text("utf-8").splitlines():
        assert re.search(rf"(^| ){json.loads(line)['id']}( |$)", done.stdout, re.MULTILINE)


def test_wide_characters_are_measured_in_columns():
    from rich.cells import cell_len

    done = composite("-", stdin=lines_of(memory("记忆选择器" * 60, id="中文编号")), columns=60)
    assert max(map(cell_len, done.stdout.splitlines())) <= 60
    assert done.stdout.splitlines()[3].endswith("…")


def test_a_pipe_gets_the_whole_text_without_colour():
    done = spawn("select", "-", "--query", "end", stdin=lines_of(memory("word " * 400 + "\nend")))
    assert b"\x1b" not in done.stdout
    assert ("word " * 400 + "end").encode() in done.stdout


def test_the_printed_table_of_the_example():
    done = composite(MEMORIES, "--scores", SCORES, "--top-k", "2", columns=80)
    assert done.stdout.splitlines() == [
        "#  id                  score  relevance  recency  importance  tokens",
        "1  b-db-decision       0.800      1.000    0.000       1.000      15",
        "   Decided on MongoDB after evaluating Postgres. Raw driver only.",
        "2  b-mongo-raw-driver  0.664      0.757    0.000       0.950      14",
        "   Uses the MongoDB raw driver with explicit Collection types.",
        "",
        "kept 2 of 35, 29 of 3000 tokens",
        "  past_top_k  33  b-sqlalchemy-superseded and 32 more",
    ]


# --- the example data


def test_the_example_files_are_what_their_script_makes(tmp_path):
    if not BELIEFS.exists():
        pytest.skip("the beliefs that the examples are made from are not here")
    subprocess.run([sys.executable, "-c", (
        "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import make; "
        "make.main(sys.argv[2], pathlib.Path(sys.argv[3]))"
    ), str(EXAMPLES), str(BELIEFS), str(tmp_path)], check=True)  # fmt: skip
    for name in ("memories.jsonl", "scores.json"):
        assert (tmp_path / name).read_bytes() == (EXAMPLES / name).read_bytes()


# --- anything else


def mutated(rng: random.Random, text: bytes) -> bytes:
    """The text with a few bytes, values or stretches exchanged for others that JSON readers stumble over."""
    scraps = [
        b"null", b"NaN", b"-1e309", b"1e308", b'""', b"[", b"]", b"{", b"}", b",", b":", b'"', b"\\", b"\xff", b"\x00",
        b"\\ud800", b"true", b"0", b"-0.0", b"9" * 400, b"[[[[", b'"id"', b'"memories"', b"\n", b"\xef\xbb\xbf",
        b'{"input": "x"}', b"1788220800000", b'"2026-10-01T00:00:00Z"', b'"\\u001b[31m"',
    ]  # fmt: skip
    for _ in range(rng.randint(1, 2)):
        # Values stand after a colon, so a half of the changes hits a value.
        spots = [found.end() for found in re.finditer(rb": ", text)] if rng.random() < 0.7 else []
        start = rng.choice(spots) if spots else rng.randrange(len(text) + 1)
        found = re.compile(rb'"[^"]*"|[^,}\]]*').match(text, start) if spots else None
        end = found.end() if found else min(len(text), start + rng.choice((0, 0, 1, 5, 60)))
        text = text[:start] + rng.choice(scraps) + text[end:]
    return text


@pytest.mark.parametrize("policy", ["composite", "memory-select"])
def test_a_damaged_file_gives_an_answer_or_one_line_and_never_a_traceback(policy):
    rng = random.Random(20261130)
    lines = Path(MEMORIES).read_bytes().splitlines()
    answers = refusals = 0
    for _ in range(400):
        some = rng.sample(lines, 3)
        shape = rng.choice(("lines", "array", "object"))
        text = b"\n".join(some) if shape == "lines" else b"[" + b",".join(some) + b"]"
        if shape == "object":
            text = b'{"memories": ' + text + b', "query": "redis"}'
        text = mutated(rng, text)
        arguments = ["select", "-", "--policy", policy, "--now", NOW, "--audit", "--query", "redis express"]
        output = rng.choice(("table", "json", "jsonl"))
        done = run(*arguments, "--format", output, stdin=text)
        assert type(done.exception) in (type(None), SystemExit), (text, done.exception)
        assert done.exit_code in (0, 2)
        if done.exit_code == 2:
            refusals += 1
            assert (done.stdout, done.stderr.count("\n")) == ("", 1), text
            assert done.stderr.startswith("Error: "), text
        else:
            answers += 1
        assert re.sub("[\n\xa0]", "", done.output).isprintable(), text
    assert min(answers, refusals) > 40
