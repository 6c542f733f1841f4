"""What redact costs on text without secrets, on text with one, and on input made to be slow.

Every answer is checked before it is timed; a time is the least of several rounds. Run from the project's root:
python benchmarks/policy/bench_redaction.py [FILE]; the figures go to FILE as JSON, by default
benchmarks/results/redaction.json.
"""

import json
import pathlib
import platform
import subprocess
import sys
import time

from memsel.policy.redaction import redact

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLEAN = {
    "prose, 148 characters": "Dana prefers the weekly report on Friday mornings; she said the Lisbon office closes"
    " early in July and wants the draft at least one day before that.",
    "prose that speaks of a key, 151 characters": "the spare key to the flat is under the mat by the door; Dana said"
    " she would bring another one on Friday, so ask her first if it is not there by then ok",
}
GITHUB = "gh" + "p_16C7e42F292c6912E7710c838347Ae178B4a"
SECRET = {
    "a password in 140 characters": "password: hunter2 and the rest of a memory that goes on for a while, with words"
    " and so on until it has about one hundred and forty characters",
    "a provider key in 140 characters": f"use {GITHUB} and the rest of a memory that goes on for a while, with words"
    " and so on until the end of it",
}
BEGIN = "-" * 5 + "BEGIN RSA PRIVATE KEY" + "-" * 5
# Units that are repeated to 100,000 and to 200,000 characters: time must double, not quadruple.
HOSTILE = (
    *(BEGIN + "\n", "-" * 5 + "END RSA PRIVATE KEY" + "-" * 5 + "\n", BEGIN + "\nMIIE", "-", "A", "0", "=", "_", "."),
    *('"', "'", "\\", "{", "[", "<", "@", "://", "a://b:c@", "password", "password=", "password: ", 'password="x '),
    *(
        "password='a ",
        "password is ",
        "password for a b c d ",
        "pw=",
        "_pass:",
        "?key=",
        "token:a",
        'token="a',
        "_key=",
    ),
    *("api_key=x", "s" + "k-a", "ey" + "Ja.", "gh" + "p_", "bearer a", "Authorization: a ", "authorization: digest a="),
    *("curl -u ", "a:b@tcp(", "thin:a/", "(password ", "mot de passe ", "credentials: ", "password=a,b", "password=(a"),
)


def machine() -> dict[str, str]:
    cpu = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {
        "processor": next((line.split(":", 1)[1].strip() for line in cpu if line.startswith("model name")), ""),
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
    }


def microseconds(text: str, repeat: int, rounds: int = 15) -> float:
    times = []
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(repeat):
            redact(text)
        times.append((time.process_time() - started) / repeat * 1e6)
    return min(times)


def main() -> None:
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "benchmarks" / "results" / "redaction.json"
    figures: dict[str, object] = {"machine": machine()}
    for text in CLEAN.values():
        assert redact(text) == text
    for text in SECRET.values():
        assert "[REDACTED_" in redact(text)
    figures["microseconds"] = {name: round(microseconds(text, 2000), 3) for name, text in (CLEAN | SECRET).items()}

    lines = (BEGIN + "\n") * 16_000
    assert BEGIN not in redact(lines)
    figures["seconds_for_16000_unclosed_begin_lines"] = round(microseconds(lines, 1, 3) / 1e6, 3)

    growth = {}
    for unit in HOSTILE:
        half, whole = (unit * (size // len(unit)) for size in (100_000, 200_000))
        assert redact(redact(half)) == redact(half)
        once, twice = microseconds(half, 1, 3), microseconds(whole, 1, 3)
        growth[unit] = {
            "microseconds_a_character": round(twice / len(whole), 3),
            "for_twice_the_text": round(twice / once, 2),
        }
    slowest = sorted(growth, key=lambda unit: -growth[unit]["microseconds_a_character"])[:5]
    steepest = sorted((unit for unit in growth), key=lambda unit: -growth[unit]["for_twice_the_text"])[:5]
    figures["hostile"] = {
        "units": len(growth),
        "slowest": {unit: growth[unit] for unit in slowest},
        "steepest": {unit: growth[unit] for unit in steepest},
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
