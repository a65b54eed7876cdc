"""Reads pages of metrics as Prometheus does."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]


class Scrape:
    """The samples of one page, by name and labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples: dict[tuple[str, Labels], float] = {}
        self.types: dict[str, str] = {}
        for family in text_string_to_metric_families(text):
            self.types[family.name] = family.type
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in self.samples, f"{key} is there twice"
                self.samples[key] = sample.value

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.samples}

    def of(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        return ((dict(labels), value) for (known, labels), value in self.samples.items() if known == name)

    def value(self, name: str, **labels: str) -> float | None:
        """None: the page does not have it."""
        return self.samples.get((name, frozenset(labels.items())))

    def sum(self, name: str) -> float:
        return sum(value for _, value in self.of(name))
