# ruff: noqa: RUF001 - look-alike characters are among the inputs
"""Settings: members, mappings and TOML tables; what they may hold and how a wrong one is named."""

import copy
import dataclasses
import decimal
import fractions
import pickle

import numpy as np
import pytest

from memsel.errors import InputError
from memsel.policy import MemorySelectSettings, memory_select

DECIMALS = [
    "min_relevance",
    "recency_days",
    "dedupe",
    "relevance_weight",
    "freshness_weight",
    "importance_weight",
    "similarity_weight",
]


def test_the_defaults_are_the_documented_ones():
    settings = MemorySelectSettings()
    assert (settings.max_results, settings.max_tokens) == (10, 4000)
    assert (settings.min_relevance, settings.recency_days, settings.dedupe) == (0.15, 14, 0.8)
    assert (settings.redact, settings.guard, settings.conflicts) == (True, True, ())
    weights = (
        settings.relevance_weight,
        settings.freshness_weight,
        settings.importance_weight,
        settings.similarity_weight,
    )
    assert weights == (0.5, 0.3, 0.2, 0)


@pytest.mark.parametrize("name", DECIMALS)
def test_a_decimal_may_be_text_and_a_text_that_is_no_number_reads_as_the_default(name):
    default = getattr(MemorySelectSettings(), name)
    for value, expected in [
        ("0.25", 0.25),
        (" .5 ", 0.5),
        ("+1e-1", 0.1),
        ("1.", 1.0),
        (1, 1.0),
        (np.float32(0.5), 0.5),
        (fractions.Fraction(1, 4), 0.25),
        (decimal.Decimal("0.125"), 0.125),
        ("", default),
        ("a lot", default),
        ("0,5", default),
        ("1_0", default),
        ("٠.٥", default),
        ("0x1", default),
    ]:
        settings = MemorySelectSettings.from_mapping({name: value})
        assert getattr(settings, name) == expected
        assert type(getattr(settings, name)) is float


@pytest.mark.parametrize("name", DECIMALS)
@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "nan", "inf", "-Infinity", "1e999", 10**400, None, True, [0.5], {}, b"1", 1j],
)
def test_a_decimal_that_is_not_finite_or_of_the_wrong_shape_is_refused_by_name(name, value):
    with pytest.raises(InputError, match=rf"^{name} is .*; expected a "):
        MemorySelectSettings.from_mapping({name: value})


@pytest.mark.parametrize("name", ["max_results", "max_tokens"])
def test_a_count_is_an_integer_of_one_or_more(name):
    assert getattr(MemorySelectSettings(**{name: np.int64(3)}), name) == 3
    for value in (0, -1, 2.9, 2.0, "12", True, None, [1], 1e400, 2**70):
        with pytest.raises(InputError, match=rf"^{name} is .*; expected an integer "):
            MemorySelectSettings(**{name: value})


@pytest.mark.parametrize("name", ["min_relevance", "dedupe"])
def test_a_share_lies_from_zero_to_one(name):
    for value in (0, 1, "0", "1"):
        assert getattr(MemorySelectSettings(**{name: value}), name) == float(value)
    for value in (-0.01, 1.01, "2"):
        with pytest.raises(InputError, match=rf"^{name} is .*; expected a number from 0 to 1"):
            MemorySelectSettings(**{name: value})


def test_a_half_life_is_above_zero():
    for value in (0, -1, "0", -0.0):
        with pytest.raises(InputError, match=r"^recency_days is .*; expected a finite number above 0"):
            MemorySelectSettings(recency_days=value)


@pytest.mark.parametrize("name", ["redact", "guard"])
def test_a_flag_is_true_or_false(name):
    for value in (0, 1, "true", None):
        with pytest.raises(InputError, match=rf"^{name} is .*; expected true or false"):
            MemorySelectSettings(**{name: value})


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ("tabs", "conflicts is"),
        ({"tabs": "spaces"}, "conflicts is"),
        (["tabs"], r"conflicts\[0\] is"),
        ([["tabs"]], r"conflicts\[0\] is"),
        ([["a1", "b1"], [["x1"], []]], r"conflicts\[1\]\[1\] is"),
        ([["tabs", 5]], r"conflicts\[0\]\[1\] is"),
        ([["tabs", ["spaces", 5]]], r"conflicts\[0\]\[1\] holds"),
        ([["tabs", "the"]], r"conflicts\[0\]\[1\] holds"),
    ],
)
def test_conflicts_of_the_wrong_shape_are_refused_by_place(value, where):
    with pytest.raises(InputError, match=rf"^{where} .*; expected "):
        MemorySelectSettings(conflicts=value)


def test_an_unknown_setting_is_refused_by_name():
    with pytest.raises(InputError, match="unknown member 'max_items'; expected one of max_results, "):
        memory_select("q", [], settings={"max_items": 3})
    with pytest.raises(InputError, match=r"^settings is of type list"):
        memory_select("q", [], settings=[("max_results", 3)])
    with pytest.raises(InputError, match="unknown member 'conflict_groups'"):
        MemorySelectSettings.from_mapping({"conflict_groups": ()})
    with pytest.raises(InputError, match="unknown member 5; expected"):
        MemorySelectSettings.from_mapping({5: 1})
    for error in (InputError, TypeError):
        with pytest.raises(error, match="unknown member 'colour'; expected one of max_results, "):
            MemorySelectSettings(colour="red")


def test_an_error_shows_no_secret_of_a_setting():
    secret = "AKIA" + "IOSFODNN7EXAMPLE"
    with pytest.raises(InputError, match=r"^max_results is .*REDACTED") as caught:
        MemorySelectSettings(max_results=secret)
    assert secret not in str(caught.value)


def test_settings_are_immutable_and_equal_by_their_members():
    settings = MemorySelectSettings(dedupe="0.5", conflicts=[["tabs", "spaces"]])
    assert settings == MemorySelectSettings(dedupe=0.5, conflicts=((("tabs",), ("spaces",)),))
    assert hash(settings) == hash(MemorySelectSettings(dedupe=0.5, conflicts=settings.conflicts))
    with pytest.raises(AttributeError):
        settings.dedupe = 1
    assert copy.deepcopy(settings) == pickle.loads(pickle.dumps(settings)) == settings
    assert dataclasses.replace(settings, guard=False) == MemorySelectSettings(
        dedupe=0.5, conflicts=settings.conflicts, guard=False
    )


def test_a_table_of_a_toml_file_gives_settings(tmp_path):
    path = tmp_path / "memsel.toml"
    path.write_bytes(
        b"\xef\xbb\xbf[memory-select]\nmax_results = 3\nmin_relevance = '0.5'\nrecency_days = 'soon'\nguard = false\n"
        b"conflicts = [['tabs', ['spaces', 'blanks']]]\n[other]\nx = 1\n"
    )
    settings = MemorySelectSettings.from_toml(path)
    assert settings == MemorySelectSettings(
        max_results=3, min_relevance=0.5, guard=False, conflicts=[["tabs", ["spaces", "blanks"]]]
    )
    assert settings.recency_days == 14


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[memory-select\n", "expected a TOML file"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"[other]\n", r"there is no table \[memory-select\]"),
        (b"memory-select = 3\n", r"\[memory-select\]: settings is 3; expected"),
        (b"[memory-select]\nmax_results = 0\n", r"\[memory-select\]: max_results is 0; expected"),
        (b"[memory-select]\nmax-results = 1\n", "unknown member 'max-results'"),
        (b"[memory-select]\ndedupe = nan\n", "dedupe is nan; expected"),
        (b"a = " + b"[" * 10000, "expected a TOML file"),
    ],
)
def test_a_toml_file_that_holds_no_settings_is_named(tmp_path, data, message):
    path = tmp_path / "settings.toml"
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"settings\.toml: .*{message}"):
        MemorySelectSettings.from_toml(path)
