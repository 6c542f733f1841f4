# ruff: noqa: RUF001 - look-alike characters are among the inputs
"""What memory_select does where selectors like it have gone wrong: scopes, times, duplicates, conflicts, order."""

import datetime

import pytest

from memsel.errors import InputError
from memsel.policy import MemorySelectSettings, memory_select

NOW = datetime.datetime(2026, 1, 15, 12, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


def memory(id, text="shared filler text", **members):
    return {"id": id, "text": text, "created_at": NOW - DAY, **members}


def select(memories, query="", *, scope=None, token_counter=None, **settings):
    settings = {"min_relevance": 0, "redact": False, **settings}
    return memory_select(query, memories, settings=settings, scope=scope, now=NOW, token_counter=token_counter)


def kept(answer):
    return [one.id for one in answer.selected]


def test_an_id_of_another_scope_does_not_hide_the_callers_own():
    answer = select([memory("k", "theirs", scope="tenant-b"), memory("k", "mine", scope="tenant-a")], scope="tenant-a")
    assert [(one.id, one.text) for one in answer.selected] == [("k", "mine")]
    assert answer.dropped == [("k", "out_of_scope")]


def test_an_expired_copy_of_an_id_does_not_hide_the_fresh_one():
    answer = select([memory("k", "old", expires_at=NOW - DAY), memory("k", "fresh")])
    assert [one.text for one in answer.selected] == ["fresh"]
    assert answer.dropped == [("k", "expired")]


def test_the_first_of_equal_ids_in_scope_and_alive_is_kept():
    answer = select([memory("k", "first"), memory("k", "second", importance=1)])
    assert [one.text for one in answer.selected] == ["first"]
    assert answer.dropped == [("k", "duplicate_input")]


def test_an_absent_scope_means_default_and_no_other_does():
    assert kept(select([memory("a"), memory("b", "other words", scope=None)])) == ["a", "b"]
    assert kept(select([memory("a")], scope="default")) == ["a"]
    assert select([memory("a", scope=" ")]).dropped == [("a", "out_of_scope")]
    for scope in ("", 0, False, 5, ["x"]):
        with pytest.raises(
            InputError, match=r"memories\[0\] \(id 'a'\): scope is .*; expected a text that is not empty"
        ):
            select([memory("a", scope=scope)])
        with pytest.raises(InputError, match=r"^scope is "):
            select([memory("a")], scope=scope)


def test_the_library_lists_the_ids_that_are_out_of_scope():
    assert select([memory("payroll-2026", scope="hr")], scope="guest").dropped == [("payroll-2026", "out_of_scope")]


def test_expiry_at_now_is_expired_and_a_microsecond_later_is_not():
    assert select([memory("k", expires_at=NOW)]).dropped == [("k", "expired")]
    assert kept(select([memory("k", expires_at=NOW + datetime.timedelta(microseconds=1))])) == ["k"]
    elsewhere = datetime.datetime(2026, 1, 15, 7, tzinfo=datetime.timezone(datetime.timedelta(hours=-5)))
    assert select([memory("k", expires_at=elsewhere)]).dropped == [("k", "expired")]


def test_a_negation_keeps_both_and_marks_the_later():
    plain, negated = "production deploy allowed for release branch", "production deploy not allowed for release branch"
    answer = select([memory("a", plain), memory("b", negated)])
    assert kept(answer) == ["a", "b"]
    assert answer.selected[0].reasons[-1] == "importance=0.50"
    assert answer.selected[1].reasons[-1] == "possible_conflict:a"
    assert select([memory("a", plain), memory("b", negated)], guard=False).dropped == [("b", "duplicate_of:a")]


def test_never_and_always_are_no_duplicates():
    text = "{} deploy the staging stack to production on friday evenings after review"
    answer = select(
        [memory("old", text.format("always"), created_at=NOW - 30 * DAY), memory("new", text.format("never"))]
    )
    assert kept(answer) == ["new", "old"]
    assert answer.selected[1].reasons[-1] == "possible_conflict:new"


def test_a_french_negation_counts_as_words_of_its_own():
    plain, negated = "déployer en production le vendredi", "ne pas déployer en production le vendredi"
    answer = select([memory("old", plain, created_at=NOW - 30 * DAY), memory("new", negated)])
    assert kept(answer) == ["new", "old"]
    assert answer.dropped == []
    marked = select([memory("old", plain, created_at=NOW - 30 * DAY), memory("new", negated)], dedupe=0.6)
    assert marked.selected[1].reasons[-1] == "possible_conflict:new"


@pytest.mark.parametrize("negation", ["don't", "isn’t", "never", "cannot", "sans", "n'a", "jamais", "without", "no"])
def test_every_negation_guards_a_pair(negation):
    text = "alpha beta gamma delta epsilon zeta eta theta iota kappa"
    answer = select([memory("a", text), memory("b", f"{text} {negation}")])
    assert answer.selected[1].reasons[-1] == "possible_conflict:a"


def test_records_that_differ_in_a_number_are_both_kept():
    text = "invoice {} for acme paid in full by wire transfer on monday"
    answer = select([memory("a", text.format(1001)), memory("b", text.format(1002))], dedupe=0.7)
    assert kept(answer) == ["a", "b"]
    assert answer.selected[1].reasons[-1] == "possible_conflict:a"
    assert select(
        [memory("a", text.format(1001)), memory("b", text.format(1002))], dedupe=0.7, guard=False
    ).dropped == [("b", "duplicate_of:a")]
    assert select([memory("a", text.format("v1")), memory("b", text.format("v2"))], dedupe=0.7).dropped == [
        ("b", "duplicate_of:a")
    ]


def test_a_duplicate_of_one_is_dropped_though_it_contradicts_another():
    text = "alpha beta gamma delta epsilon zeta eta theta iota {}"
    memories = [memory(id, text.format(end)) for id, end in (("a", "kappa"), ("b", "kappa not"), ("c", "kappa not"))]
    answer = select(memories)
    assert kept(answer) == ["a", "b"]
    assert answer.dropped == [("c", "duplicate_of:b")]


def test_one_mark_names_the_first_kept_in_rank_order():
    answer = select([memory("a", "mysql one"), memory("b", "mysql two"), memory("c", "sqlite three")])
    assert [one.reasons[3:] for one in answer.selected] == [[], [], ["possible_conflict:a"]]


def test_identical_chinese_memories_are_duplicates_and_foreign_ones_pass_no_threshold():
    assert select([memory("a", "请用中文回答"), memory("b", "请用中文回答")]).dropped == [("b", "duplicate_of:a")]
    assert kept(select([memory("a", "请用中文回答")], "中文", min_relevance=0.5)) == ["a"]
    assert select([memory("a", "请用中文回答")], "английский", min_relevance=0.5).dropped == [("a", "low_relevance")]


def test_a_query_of_stop_words_alone_applies_no_threshold():
    answer = select([memory("a", "anything")], "the and of", min_relevance=0.5)
    assert answer.selected[0].reasons[0] == "relevance=0.00"
    assert answer.selected[0].score == 0.385509
    assert select([memory("a", "anything")], "to be or not", min_relevance=0.5).dropped == [("a", "low_relevance")]


def test_a_share_exactly_at_the_threshold_is_a_duplicate():
    pair = [memory("a", "alpha beta gamma delta"), memory("b", "alpha beta gamma delta epsilon")]
    assert select(pair).dropped == [("b", "duplicate_of:a")]
    assert kept(select(pair, dedupe=0.8000001)) == ["a", "b"]
    words = [f"k{i}" for i in range(1, 11)]
    pair = [memory("a", " ".join(words[:7])), memory("b", " ".join(words))]
    assert select(pair, dedupe=0.7).dropped == [("b", "duplicate_of:a")]


def test_dedupe_of_zero_looks_for_no_duplicates():
    assert kept(select([memory("a"), memory("b")], dedupe=0)) == ["a", "b"]
    assert select([memory("a"), memory("b")], dedupe=1).dropped == [("b", "duplicate_of:a")]


def test_duplicates_look_at_the_text_and_not_at_the_tags():
    assert kept(select([memory("a", "one thing", tags=["x1"]), memory("b", "another matter", tags=["x1"])])) == [
        "a",
        "b",
    ]
    assert kept(select([memory("a", "one thing", tags=["mysql"]), memory("b", "sqlite")])) == ["a", "b"]
    assert select([memory("a", "one thing", tags=["mysql"]), memory("b", "sqlite")]).selected[1].reasons[3:] == []


def test_databases_conflict_by_their_names_alone():
    answer = select(
        [memory("a", "Migrated from MySQL to PostgreSQL", importance=0.9), memory("b", "MySQL backups archived")]
    )
    assert answer.selected[1].reasons[-1] == "possible_conflict:a"
    answer = select([memory("a", "pg_dump for postgres-14", importance=0.9), memory("b", "sqlite3 cache")])
    assert answer.selected[1].reasons[-1] == "importance=0.50"
    answer = select([memory("a", "Postgres it is", importance=0.9), memory("b", "postgresql it was")])
    assert answer.selected[1].reasons[-1] == "importance=0.50"


def test_conflicts_of_the_callers_own_stand_beside_the_built_in_ones():
    groups = [["tabs", ["spaces", "blanks"]], [["visual studio", "vs"], "東京都"]]
    pairs = [("use tabs", "blanks please", True), ("blanks", "spaces", False), ("Visual studio", "東京都庁", True)]
    pairs += [("visual only", "東京都", False), ("mysql", "sqlite", True)]
    for first, second, rivals in pairs:
        answer = select([memory("a", first, importance=1), memory("b", second)], conflicts=groups)
        assert (answer.selected[1].reasons[-1] == "possible_conflict:a") is rivals


def test_scores_equal_to_six_decimals_go_to_the_newer_then_to_the_lower_id():
    assert kept(select([memory("b", "one", importance=0.5000001), memory("a", "two")])) == ["a", "b"]
    assert kept(select([memory("10", "ten"), memory("9", "nine"), memory("2", "two")])) == ["10", "2", "9"]
    later = [memory("a", "one", created_at=NOW + DAY), memory("b", "two", created_at=NOW + 2 * DAY)]
    assert kept(select(later)) == ["b", "a"]
    assert [one.reasons[1] for one in select(later).selected] == ["recency=1.00", "recency=1.00"]


def test_similarity_counts_in_the_gate_and_the_reason_and_by_its_weight():
    pair = [memory("lo", "alpha", similarity=0.01), memory("hi", "beta", similarity=0.99)]
    answer = select(pair)
    assert [(one.id, one.score, one.reasons[-1]) for one in answer.selected] == [
        ("hi", 0.385509, "similarity=0.99"),
        ("lo", 0.385509, "similarity=0.01"),
    ]
    assert select(pair, "gamma", min_relevance=0.5).dropped == [("lo", "low_relevance")]
    assert [one.score for one in select(pair, similarity_weight=1).selected] == [1.375509, 0.395509]


def test_limits_are_met_in_rank_order_and_no_text_is_cut():
    memories = [memory(f"m{i}", "word " * i + f"u{i}", importance=1 - i / 10) for i in range(1, 6)]
    answer = select(memories, max_results=2)
    assert (kept(answer), answer.dropped) == (
        ["m1", "m2"],
        [("m3", "max_items"), ("m4", "max_items"), ("m5", "max_items")],
    )
    answer = select(memories, max_tokens=8, dedupe=0)
    assert [(one.id, one.tokens) for one in answer.selected] == [("m1", 2), ("m2", 3)]
    assert answer.dropped == [("m3", "budget"), ("m4", "budget"), ("m5", "budget")]
    answer = select([memory("a", "x" * 41, importance=1), memory("b", "y" * 40)], max_tokens=10)
    assert (kept(answer), answer.dropped, answer.total_tokens) == (["b"], [("a", "budget")], 10)


def test_the_limit_of_items_comes_before_the_budget_and_the_budget_before_duplicates():
    pair = [memory("a", importance=1), memory("b"), memory("c", "y" * 400)]
    assert select(pair, max_results=1, max_tokens=5).dropped == [("b", "max_items"), ("c", "max_items")]
    assert select(pair, max_tokens=5).dropped == [("b", "budget"), ("c", "budget")]
    assert select(pair, max_tokens=50).dropped == [("b", "duplicate_of:a"), ("c", "budget")]


def test_no_memories_give_an_empty_selection():
    answer = memory_select("anything", [])
    assert answer.to_dict() == {"selected": [], "dropped": [], "total_tokens": 0}


def test_the_clock_is_read_once_and_looked_up_at_the_call(monkeypatch):
    calls = []
    monkeypatch.setattr("time.time", lambda: calls.append(1) or NOW.timestamp())
    answer = memory_select("", [memory("a"), {"id": "b", "text": "new"}], settings=MemorySelectSettings(redact=False))
    assert [one.reasons[1] for one in answer.selected] == ["recency=1.00", "recency=0.95"]
    assert len(calls) == 1
