"""SelectionConfig: its fields, their checks, and that a selector reads them anew at every call."""

from __future__ import annotations

import copy
import dataclasses
import decimal
import fractions
import inspect
import math
import pickle
import types
from typing import Any

import pytest
from makers import entries, entry, ids, select, shown

from memsel import MemorySelector, SelectionConfig

pytestmark = pytest.mark.usefixtures("clock")

ZERDA_FIELDS = {
    "relevance_weight": 0.50,
    "recency_weight": 0.20,
    "importance_weight": 0.30,
    "recency_half_life_hours": 24.0,
    "min_composite_score": 0.10,
    "top_k": 10,
    "token_budget": 3000,
}
ADDED_FIELDS = {"overflow": "skip", "clamp_future": False, "recency_from": "created", "token_counter": None}


def test_the_fields_and_defaults_are_the_documented_ones_in_order() -> None:
    fields = dataclasses.fields(SelectionConfig)
    assert {field.name: field.default for field in fields} == ZERDA_FIELDS | ADDED_FIELDS
    assert [field.name for field in fields] == [*ZERDA_FIELDS, *ADDED_FIELDS]
    assert [field.name for field in fields if field.kw_only] == list(ADDED_FIELDS)
    assert dataclasses.asdict(SelectionConfig()) == ZERDA_FIELDS | ADDED_FIELDS
    assert list(inspect.signature(SelectionConfig).parameters) == [*ZERDA_FIELDS, *ADDED_FIELDS]


def test_the_documented_fields_go_by_position_and_the_added_ones_by_name() -> None:
    config = SelectionConfig(0.1, 0.2, 0.7, 1.0, 0.0, 5, 100)
    assert dataclasses.astuple(config)[:7] == (0.1, 0.2, 0.7, 1.0, 0.0, 5, 100)
    with pytest.raises(TypeError):
        SelectionConfig(0.1, 0.2, 0.7, 1.0, 0.0, 5, 100, "stop")  # type: ignore[misc]


def test_repr_shows_an_added_field_only_where_it_says_something() -> None:
    shown_fields = "relevance_weight=0.1, recency_weight=0.2, importance_weight=0.7, recency_half_life_hours=1.0, "
    shown_fields += "min_composite_score=0.0, top_k=5, token_budget=100"
    assert repr(SelectionConfig(0.1, 0.2, 0.7, 1.0, 0.0, 5, 100)) == f"SelectionConfig({shown_fields})"
    stopping = SelectionConfig(0.1, 0.2, 0.7, 1.0, 0.0, 5, 100, overflow="stop", clamp_future=True)
    assert repr(stopping) == f"SelectionConfig({shown_fields}, overflow='stop', clamp_future=True)"
    assert eval(repr(stopping), {"SelectionConfig": SelectionConfig}) == stopping


def test_configs_are_equal_by_all_fields_and_unhashable() -> None:
    assert SelectionConfig() == SelectionConfig()
    assert SelectionConfig() != SelectionConfig(top_k=9)
    assert SelectionConfig() != SelectionConfig(clamp_future=True)
    with pytest.raises(TypeError):
        hash(SelectionConfig())


def test_a_config_can_be_copied_replaced_and_pickled() -> None:
    config = SelectionConfig(top_k=3, overflow="stop")
    for other in (copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert other == config
        assert other is not config
    assert dataclasses.replace(config, top_k=4) == SelectionConfig(top_k=4, overflow="stop")


@pytest.mark.parametrize(
    "weights",
    [(0.501, 0.2, 0.3), (0.499, 0.2, 0.3), (1.5, -0.8, 0.3), (True, False, False), (1, 0, 0),
     (fractions.Fraction(1, 2), fractions.Fraction(1, 5), fractions.Fraction(3, 10))],
)  # fmt: skip
def test_weights_that_sum_to_one_within_a_thousandth_are_accepted(weights: tuple[Any, ...]) -> None:
    assert SelectionConfig(*weights).relevance_weight == weights[0]
    named = dict(zip(("relevance_weight", "recency_weight", "importance_weight"), weights, strict=True))
    (row,) = select([entry()], **named, min_composite_score=-1.0)
    assert row.composite_score == float((weights[0] * 0.5 + weights[1] * 1.0) + weights[2] * 0.5)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((0.50101, 0.2, 0.3), "Weights must sum to 1.0, got 1.001"),
        ((0.4989, 0.2, 0.3), "Weights must sum to 1.0, got 0.999"),
        ((math.nan, 0.2, 0.3), "Weights must sum to 1.0, got nan"),
        ((math.inf, 0.2, 0.3), "Weights must sum to 1.0, got inf"),
        ((0.5, 0.5, 0.5), "Weights must sum to 1.0, got 1.500"),
        ((0, 0, 0), "Weights must sum to 1.0, got 0.000"),
    ],
)
def test_weights_that_do_not_sum_to_one_are_refused(weights: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        SelectionConfig(*weights)
    assert str(raised.value) == message


def test_weights_that_are_no_numbers_are_type_errors() -> None:
    for weights in (("0.5", 0.2, 0.3), (None, 0.2, 0.3)):
        with pytest.raises(TypeError):
            SelectionConfig(*weights)


def test_decimal_weights_are_accepted_and_fail_at_selection() -> None:
    config = SelectionConfig(decimal.Decimal("0.5"), decimal.Decimal("0.2"), decimal.Decimal("0.3"))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        MemorySelector(config).select("q", [entry()])
    assert MemorySelector(config).select("q", []) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("overflow", "overflow is 'halt'; expected 'skip' or 'stop'"),
        ("recency_from", "recency_from is 'halt'; expected 'created' or 'accessed'"),
    ],
)
def test_a_wrong_word_is_refused_when_made_and_when_used(name: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        SelectionConfig(**{name: "halt"})
    assert str(raised.value) == message
    selector = MemorySelector()
    setattr(selector.config, name, "halt")
    for call in (selector.select, selector.audit):
        with pytest.raises(ValueError) as raised:
            call("q", [entry(content="x" * 100_000), entry("b")])
        assert str(raised.value) == message


def test_a_config_is_read_anew_at_every_call() -> None:
    config = SelectionConfig()
    selector = MemorySelector(config)
    assert selector.config is config
    config.relevance_weight = 5  # not checked any more
    config.top_k = 1
    assert shown(selector.select("q", entries("ab"))) == [("a", 0.5, 1.0, 0.5, 2.85)]
    config.top_k = 10
    config.token_budget = 10
    assert ids(selector.select("q", entries("ab"))) == ["a"]
    config.token_budget = 3000
    config.min_composite_score = 3.0
    assert selector.select("q", entries("ab")) == []
    selector.config = SelectionConfig(top_k=1)
    assert ids(selector.select("q", entries("ab"))) == ["a"]


def test_selectors_share_no_default_config() -> None:
    assert MemorySelector().config is not MemorySelector().config
    assert MemorySelector().config == SelectionConfig()


def test_a_falsy_config_stands_for_the_default() -> None:
    for falsy in (None, 0, {}):
        assert MemorySelector(falsy).config == SelectionConfig()  # type: ignore[arg-type]


def test_any_object_with_zerdas_seven_attributes_is_a_config() -> None:
    plain = types.SimpleNamespace(**ZERDA_FIELDS)
    assert shown(MemorySelector(plain).select("q", entries("ab"))) == shown(select(entries("ab")))  # type: ignore[arg-type]
    assert len(MemorySelector(plain).audit("q", entries("ab"))) == 2  # type: ignore[arg-type]
    del plain.token_budget
    with pytest.raises(AttributeError):
        MemorySelector(plain).select("q", entries("ab"))  # type: ignore[arg-type]


def test_zerdas_own_config_is_a_config() -> None:
    import zerda.memory

    theirs = zerda.memory.SelectionConfig(top_k=1)
    assert ids(MemorySelector(theirs).select("q", entries("ab"))) == ["a"]  # type: ignore[arg-type]
