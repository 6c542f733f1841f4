# ruff: noqa: RUF001 - look-alike characters are among the inputs
"""Words in any script, as they are pinned, seen through `words` and through what a query finds."""

import pytest

from memsel.policy import memory_select
from memsel.policy._words import NEGATIONS, STOP_WORDS, words
from policy import oracle


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Deploy the Server", ["deploy", "server"]),
        ("a b c d", []),
        ("7 of 9", ["7", "9"]),
        ("C++ and C#", ["c++", "c#"]),
        ("c++11, c##, abc++", ["c++", "11", "c#", "abc"]),
        ("don't DON’T isn't", ["don't", "don't", "isn't"]),
        ("n'aime pas, rock 'n' roll", ["n'", "aime", "pas", "rock", "roll"]),
        ("don'ts", ["don", "ts"]),
        ("not no never without cannot", ["not", "no", "never", "without", "cannot"]),
        ("cœur œuvre", ["cœur", "œuvre"]),
        ("straße Größe", ["strasse", "grösse"]),
        ("İstanbul", ["istanbul"]),
        ("ＡＢＣ ﬁne", ["abc", "fine"]),
        ("cafe\u0301 café", ["café", "café"]),
        ("été à l'École", ["école"]),
        ("snake_case-word", ["snake", "case", "word"]),
        ("v2 2nd 1,001 3.14", ["v2", "2nd", "1", "001", "3", "14"]),
        ("сервер Москва", ["сервер", "москва"]),
        ("ΌΣΟΣ όσος", ["όσοσ", "όσοσ"]),
        ("مُحَمَّد ٢٠٢٤", ["مُحَمَّد", "٢٠٢٤"]),
        ("שָׁלוֹם", ["שָׁלוֹם"]),
        ("हिन्दी कि", ["हिन्दी", "कि"]),
        ("น้ำ", ["น\u0e49\u0e4d\u0e32"]),
        ("请用中文回答", ["请用", "用中", "中文", "文回", "回答"]),
        ("猫 と 犬", ["猫", "と", "犬"]),
        ("東京2020大会", ["東京", "2020", "大会"]),
        ("使用c++开发", ["使用", "c++", "开发"]),
        ("サーバー", ["サー", "ーバ", "バー"]),
        ("ｶﾞﾗｽ", ["ガラ", "ラス"]),
        ("データ・ベース", ["デー", "ータ", "ベー", "ース"]),
        ("서버 데이터", ["서버", "데이", "이터"]),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", ["한글"]),
        ("あ\u3099い", ["あ\u3099い"]),
        ("👍 ❤️ 👩\u200d👧 \ud83d", []),
        ("\u0301 ´ ¨", []),
    ],
)
def test_a_text_is_cut_into_its_words(text, expected):
    assert words(text) == expected


def test_the_stop_words_and_negations_are_those_of_the_oracle():
    assert STOP_WORDS == oracle.STOP_WORDS
    assert NEGATIONS == oracle.NEGATIONS
    assert not STOP_WORDS & NEGATIONS


def relevance(query: str, text: str, tags: tuple[str, ...] = ()) -> str:
    memory = {"id": "a", "text": text, "tags": tags}
    answer = memory_select(query, [memory], settings={"min_relevance": 0, "redact": False})
    return answer.selected[0].reasons[0]


@pytest.mark.parametrize(
    ("query", "text", "share"),
    [
        ("中文", "请用中文回答", "1.00"),
        ("сервер", "сервер в Москве", "1.00"),
        ("кошка python", "I like python", "0.50"),
        ("réunion genève", "re\u0301union a\u0300 gene\u0300ve", "1.00"),
        ("istanbul", "İSTANBUL trip", "1.00"),
        ("don’t", "we don't", "1.00"),
        ("C++", "a c++ and c# shop", "1.00"),
        ("c#", "a c++ shop", "0.00"),
        ("7", "7", "1.00"),
        ("don", "don't´", "0.00"),
        ("don", "ж don't№", "1.00"),
        ("don", "ж don't", "0.00"),
        ("n' C++", "ж n’a c++", "1.00"),
        ("don", "x" * 60 + " don't ß", "0.00"),
        ("7", "17 77", "0.00"),
        ("µm", "5 μm", "1.00"),
        ("to be or not", "anything", "0.00"),
        ("server deploy cache", "cached servers: DEPLOY", "0.33"),
    ],
)
def test_relevance_is_the_share_of_the_querys_words_that_a_memory_carries(query, text, share):
    assert relevance(query, text) == f"relevance={share}"


def test_tags_carry_words_too():
    assert relevance("paris hotel", "a note", ("Paris", "old hotels")) == "relevance=0.50"


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 63, 64, 65, 127, 128, 200])
@pytest.mark.parametrize("filler", ["x", "é", "°", "½", "ж"])
def test_a_word_is_found_at_every_offset_of_a_text(length, filler):
    for at in range(length):
        text = " ".join(["".join([filler] * at), "server", "".join([filler] * (length - at))])
        assert relevance("server", text) == "relevance=1.00"
        assert relevance("server", text.replace(" server", "xserver")) == "relevance=0.00"
