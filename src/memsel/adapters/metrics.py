"""Counts of what a server answered, in Prometheus' text format; no label ever holds what a client wrote."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict

__all__ = ["MEDIA_TYPE", "Metrics"]

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Requests by path and status, their seconds by path, and the memories read and kept."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, list[int]] = {}
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._memories: Counter[tuple[str, str]] = Counter()
        self.in_flight = 0

    def answered(self, path: str, status: int, seconds: float) -> None:
        self._requests[path, status] += 1
        self._seconds.setdefault(path, [0] * (len(_BOUNDS) + 1))[bisect_left(_BOUNDS, seconds)] += 1
        self._sums[path] += seconds

    def selected(self, path: str, candidates: int, kept: int) -> None:
        self._memories[path, "read"] += candidates
        self._memories[path, "kept"] += kept

    def text(self) -> str:
        lines = ["# HELP memsel_requests_total Requests answered.", "# TYPE memsel_requests_total counter"]
        for (path, status), count in sorted(self._requests.items()):
            lines.append(f'memsel_requests_total{{path="{path}",status="{status}"}} {count}')
        lines += ["# HELP memsel_request_seconds Time to answer.", "# TYPE memsel_request_seconds histogram"]
        for path, counts in sorted(self._seconds.items()):
            total = 0
            for bound, count in zip((*_BOUNDS, "+Inf"), counts, strict=True):
                total += count
                lines.append(f'memsel_request_seconds_bucket{{path="{path}",le="{bound}"}} {total}')
            lines.append(f'memsel_request_seconds_sum{{path="{path}"}} {self._sums[path]}')
            lines.append(f'memsel_request_seconds_count{{path="{path}"}} {total}')
        lines += ["# HELP memsel_memories_total Memories read and kept.", "# TYPE memsel_memories_total counter"]
        for (path, what), count in sorted(self._memories.items()):
            lines.append(f'memsel_memories_total{{path="{path}",what="{what}"}} {count}')
        lines += ["# HELP memsel_requests_in_flight Requests under way.", "# TYPE memsel_requests_in_flight gauge"]
        lines.append(f"memsel_requests_in_flight {self.in_flight}")
        return "\n".join(lines) + "\n"
