"""MemoryEntry and the enums it is made of.

MemoryEntry is an ordinary dataclass to its users. Under it lies ``_gather.PackedEntry``, which holds the attributes
and, beside them, the numbers and the id that a selection reads, so that no selection has to ask Python for them.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import MISSING, dataclass, field
from enum import Enum
from typing import Any

from ._gather import PackedEntry, formulas_are

__all__ = ["MemoryEntry", "MemoryPriority", "MemoryType"]

_SECONDS_PER_DAY = 86400


class MemoryType(Enum):
    """The tier or kind of a memory."""

    SHORT_TERM = "short_term"
    LONG_TERM = "long_term"
    WORKING = "working"
    EPISODIC = "episodic"
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"

    @classmethod
    def from_string(cls, type_str: str) -> MemoryType:
        """The type that a word names, in any case; an unknown word names SHORT_TERM."""
        return _TYPE_OF_WORD.get(type_str.lower(), cls.SHORT_TERM)

    @property
    def description(self) -> str:
        """What memories of this type hold, in a few words."""
        return _TYPE_FACTS[self][0]

    @property
    def default_capacity(self) -> int:
        """How many memories of this type a store keeps by default."""
        return _TYPE_FACTS[self][1]

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"MemoryType.{self.name}"


_TYPE_OF_WORD = {
    word: member
    for member, short_words in {
        MemoryType.SHORT_TERM: ("short", "st"),
        MemoryType.LONG_TERM: ("long", "lt"),
        MemoryType.WORKING: ("work", "wm"),
        MemoryType.EPISODIC: ("episode", "ep"),
        MemoryType.SEMANTIC: ("sem",),
        MemoryType.PROCEDURAL: ("proc",),
    }.items()
    for word in (member.value, *short_words)
}
_TYPE_FACTS = {
    MemoryType.SHORT_TERM: ("Temporary storage with limited capacity", 1000),
    MemoryType.LONG_TERM: ("Persistent storage with large capacity", 1000),
    MemoryType.WORKING: ("Active processing and manipulation", 1000),
    MemoryType.EPISODIC: ("Personal experiences and events", 1000),
    MemoryType.SEMANTIC: ("General facts and knowledge", 1000),
    MemoryType.PROCEDURAL: ("Skills and procedures", 1000),
}


class MemoryPriority(Enum):
    """Five levels of importance."""

    CRITICAL = 1.0
    HIGH = 0.8
    MEDIUM = 0.5
    LOW = 0.3
    MINIMAL = 0.1

    @classmethod
    def from_importance(cls, importance: float) -> MemoryPriority:
        """The level of an importance score; a level's lower bound belongs to it, and NaN is MINIMAL."""
        for lower_bound, level in ((0.9, cls.CRITICAL), (0.7, cls.HIGH), (0.5, cls.MEDIUM), (0.3, cls.LOW)):
            if importance >= lower_bound:
                return level
        return cls.MINIMAL


def _clock() -> float:
    # Looked up at call time, so that a replaced time.time reaches new entries too.
    return time.time()


@dataclass
class MemoryEntry(PackedEntry):
    """One memory: its content, its time, its importance and what is known of it.

    The attributes return the very objects that were given. Two entries are equal when their ids are, and
    ``<`` compares effective importance.

    Attributes:
        content: what is remembered; its ``str`` is what enters a prompt.
        timestamp: creation, in seconds since the epoch.
        memory_type: the tier it belongs to.
        importance: 0 to 1, checked here and not at later assignments.
        access_count: number of recorded accesses.
        tags: free words; ``add_tag`` keeps them lower-case and unique.
        metadata: anything else. ``metadata["id"]`` is the entry's id; the constructor adds it where it is missing.
        embedding: a vector, or None.
        last_access: seconds since the epoch; now by default.
        decay_factor: what importance is multiplied with when memories are ranked.
        original_importance: the importance at creation.

    Raises:
        ValueError: importance is not between 0 and 1.
    """

    # field() keeps the dataclass from taking the packed attribute of this name for a default.
    content: Any = field()
    timestamp: float = field()
    memory_type: MemoryType = field()
    importance: float = 0.5
    access_count: int = 0
    tags: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    embedding: list[float] | None = None
    last_access: float = field(default_factory=_clock)
    decay_factor: float = 1.0
    original_importance: float | None = None

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        for name in cls.__annotations__:
            if name in MemoryEntry.__dataclass_fields__ and name not in cls.__dict__:
                setattr(cls, name, _Redeclared(name))

    def __post_init__(self) -> None:
        if self.original_importance is None:
            self.original_importance = self.importance
        if not 0 <= self.importance <= 1:
            raise ValueError(f"importance must be between 0 and 1, got {self.importance}")
        metadata = self.metadata
        if "id" not in metadata:
            metadata["id"] = self._generate_id()

    def _generate_id(self) -> str:
        text = f"{self.content}_{self.timestamp}_{self.memory_type.value}"
        return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:16]

    @property
    def age_seconds(self) -> float:
        """Seconds since creation; negative for a timestamp ahead of the clock."""
        return time.time() - self.timestamp

    @property
    def age_days(self) -> float:
        """Days since creation."""
        return self.age_seconds / _SECONDS_PER_DAY

    @property
    def time_since_access_seconds(self) -> float:
        """Seconds since the last access."""
        return time.time() - self.last_access

    @property
    def priority(self) -> MemoryPriority:
        """The level of the effective importance."""
        return MemoryPriority.from_importance(self.effective_importance)

    @property
    def has_embedding(self) -> bool:
        """Whether there is an embedding of at least one number."""
        return self.embedding is not None and len(self.embedding) > 0

    def access(self) -> None:
        """Record one access now, and raise importance by a twentieth of what is missing to 1."""
        self.access_count += 1
        self.last_access = time.time()
        boost = 0.05 * (1 - self.importance)
        self.importance = min(1.0, self.importance + boost)

    def apply_decay(self, decay_rate: float = 0.1) -> None:
        """Lower importance in place, linearly in the days since the last access.

        ``decay_factor`` becomes ``1 - decay_rate * days``, importance is multiplied with it; neither falls below 0.1.
        Repeated calls compound.
        """
        decay = decay_rate * (self.time_since_access_seconds / _SECONDS_PER_DAY)
        self.decay_factor = max(0.1, 1.0 - decay)
        self.importance = max(0.1, self.importance * self.decay_factor)

    def add_tag(self, tag: str) -> None:
        """Add a tag in lower case without surrounding blanks, unless it is empty or there already."""
        tag = tag.strip().lower()
        if tag and tag not in self.tags:
            self.tags.append(tag)

    def add_tags(self, tags: list[str]) -> None:
        """Add several tags, each as ``add_tag`` does."""
        for tag in tags:
            self.add_tag(tag)

    def has_tag(self, tag: str) -> bool:
        """Whether the tag, in lower case, is among the stored ones."""
        return tag.lower() in self.tags

    def update_metadata(self, key: str, value: Any) -> None:
        """Set one metadata field."""
        self.metadata[key] = value

    def merge_metadata(self, metadata: dict[str, Any]) -> None:
        """Set several metadata fields."""
        self.metadata.update(metadata)

    def to_dict(self, include_embedding: bool = False) -> dict[str, Any]:
        """The entry as a dict of plain values, with its id, effective importance, age in seconds and priority.

        Tags and metadata are copied one level deep. ``original_importance`` is left out, and so is the embedding
        unless it is asked for.
        """
        result = {
            "id": self.id,
            "content": self.content,
            "timestamp": self.timestamp,
            "memory_type": self.memory_type.value,
            "importance": self.importance,
            "effective_importance": self.effective_importance,
            "access_count": self.access_count,
            "tags": _copied(self.tags),
            "metadata": _copied(self.metadata),
            "last_access": self.last_access,
            "decay_factor": self.decay_factor,
            "age_seconds": self.age_seconds,
            "priority": self.priority.name,
        }
        if include_embedding and self.has_embedding:
            result["embedding"] = self.embedding
        return result

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MemoryEntry:
        """An entry from a dict in the form of ``to_dict``; tags and metadata are copied one level deep.

        Raises:
            KeyError: ``content`` or ``timestamp`` is missing. An unknown ``memory_type`` word reads as short_term.
        """
        memory_type = MemoryType.from_string(data.get("memory_type", "short_term"))
        return cls(
            content=data["content"],
            timestamp=data["timestamp"],
            memory_type=memory_type,
            importance=data.get("importance", 0.5),
            access_count=data.get("access_count", 0),
            tags=_copied(data.get("tags", [])),
            metadata=_copied(data.get("metadata", {})),
            embedding=data.get("embedding"),
            last_access=data.get("last_access", time.time()),
            decay_factor=data.get("decay_factor", 1.0),
            original_importance=data.get("original_importance"),
        )

    def to_json(self, include_embedding: bool = False) -> str:
        """``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(include_embedding=include_embedding))

    @classmethod
    def from_json(cls, json_str: str) -> MemoryEntry:
        """An entry from the text that ``to_json`` writes."""
        return cls.from_dict(json.loads(json_str))

    def __repr__(self) -> str:
        text = str(self.content)
        preview = text[:50] + ("..." if len(text) > 50 else "")
        return (
            f"MemoryEntry(id={self.id}, type={self.memory_type.value}, importance={self.importance:.2f}, "
            f"access_count={self.access_count}, content='{preview}')"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemoryEntry):
            return False
        return self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, MemoryEntry):
            return NotImplemented
        return self.effective_importance < other.effective_importance


class _Redeclared:
    """A field that a subclass annotates anew: to its class what a dataclass shows there, the default or nothing.

    A dataclass on top takes what the class shows for the field's default, and the packed attribute shows itself.
    """

    def __init__(self, name: str) -> None:
        self._field = MemoryEntry.__dataclass_fields__[name]
        self._packed = getattr(PackedEntry, name)

    def __get__(self, entry: MemoryEntry | None, cls: type) -> Any:
        if entry is not None:
            return self._packed.__get__(entry, cls)
        if self._field.default is MISSING:
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {self._field.name!r}")
        return self._field.default

    def __set__(self, entry: MemoryEntry, value: Any) -> None:
        self._packed.__set__(entry, value)


def _copied(value: Any) -> Any:
    # Only the plain containers are copied: whatever else was stored there keeps its type and identity.
    return value.copy() if type(value) in (list, dict) else value


# A dataclass leaves each default behind as a class attribute, and that would hide the packed attribute of the base.
for _name in ("importance", "access_count", "embedding", "decay_factor", "original_importance"):
    delattr(MemoryEntry, _name)
del _name


def _id(self: Any) -> Any:
    """The documented formula of an entry's id."""
    return self.metadata.get("id", "unknown")


def _effective_importance(self: Any) -> Any:
    """The documented formula of an entry's importance after decay."""
    return self.importance * self.decay_factor


# Entries of other classes with these very properties (zerda's, and copies of it) need not be asked by Python calls.
formulas_are(_id, _effective_importance)
