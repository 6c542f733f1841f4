"""How far the token estimator is from o200k_base, class by class, and what it costs beside counting exactly.

The held-out texts are those of tests/data/tokens; the texts that the costs were fitted to stand beside this file and
are reported apart. Run from the project's root: python benchmarks/tokens/bench_estimator.py [FILE]; the figures go to
FILE as JSON, by default benchmarks/results/tokens_estimator.json.
"""

import json
import pathlib
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import quicktok

from memsel.tokens import ScriptTokenEstimator

ROOT = pathlib.Path(__file__).resolve().parents[2]
O200K = quicktok.get_encoding("o200k_base")
ESTIMATOR = ScriptTokenEstimator()
ROUNDS = 15


def machine() -> dict[str, str]:
    processor = next(
        (
            line.split(":", 1)[1].strip()
            for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {"processor": processor, "python": platform.python_version(), "commit": commit.stdout.strip()}


def error(counted: int, real: int) -> float:
    return round(counted / real - 1, 4)


def errors_of(text: str) -> dict[str, float | int]:
    lines = [line for line in text.splitlines() if line.strip()]
    per_line = [abs(ESTIMATOR.count(line) / O200K.count(line) - 1) for line in lines]
    real = O200K.count(text)
    return {
        "characters": len(text),
        "o200k_tokens": real,
        "estimated_tokens": ESTIMATOR.count(text),
        "error": error(ESTIMATOR.count(text), real),
        "error_line_by_line": error(sum(ESTIMATOR.count_batch(lines)), sum(O200K.count(line) for line in lines)),
        "median_absolute_error_of_a_line": round(statistics.median(per_line), 4),
        "error_of_four_characters_a_token": error(-(-len(text) // 4), real),
    }


def nanoseconds(contestants: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """The median time of each contestant, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, run in contestants.items():
            started = time.perf_counter()
            for _ in range(repeat):
                run()
            times[name].append((time.perf_counter() - started) / repeat * 1e9)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main() -> None:
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "benchmarks" / "results" / "tokens_estimator.json"
    held_out = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / "tests/data/tokens").glob("*.txt"))}
    fitted = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / "benchmarks/tokens/texts").glob("*.txt"))}
    speed = {}
    for kind, text in held_out.items():
        took = nanoseconds({"estimate": lambda t=text: ESTIMATOR.count(t), "exact": lambda t=text: O200K.count(t)}, 40)
        speed[kind] = {
            "estimate_ns_per_character": round(took["estimate"] / len(text), 2),
            "exact_over_estimate": round(took["exact"] / took["estimate"], 2),
        }
    figures = {
        "machine": machine(),
        "exact": "quicktok.Tokenizer.count",
        "held_out": {kind: errors_of(text) for kind, text in held_out.items()},
        "fitted": {kind: errors_of(text) for kind, text in fitted.items()},
        "speed": speed,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(figures, indent=2) + "\n")
    for kind, row in figures["held_out"].items():
        print(f"{kind:10} {row['error']:+.1%}  len/4 {row['error_of_four_characters_a_token']:+.1%}  {speed[kind]}")


if __name__ == "__main__":
    main()
