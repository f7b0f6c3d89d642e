"""Texts that were looked at and approved: ``make approve`` rewrites them, and the difference is reviewed.

A file in ``tests/data/approved`` holds the texts of a topic in sections, each below a line ``== name``.
"""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "data" / "approved"
MARK = "== "


class Approved:
    """The approved texts of the session.

    Args:
        rewrite: Take every text that is checked, instead of comparing it.
    """

    def __init__(self, *, rewrite: bool) -> None:
        self.rewrite = rewrite
        self._topics: dict[str, dict[str, str]] = {}
        self._checked: dict[str, dict[str, str]] = {}
        self._names: dict[str, list[str]] = {}

    def sections(self, topic: str) -> dict[str, str]:
        """Return the texts of a topic by name."""
        if topic not in self._topics:
            path = FOLDER / f"{topic}.txt"
            parts = path.read_text().split(f"\n{MARK}") if path.exists() else []
            parts[:1] = [part.removeprefix(MARK) for part in parts[:1]]
            self._topics[topic] = {
                name: text.strip("\n") for name, _, text in (part.partition("\n") for part in parts)
            }
        return self._topics[topic]

    def check(self, topic: str, name: str, text: str) -> None:
        """Compare a text with the approved one of its name."""
        text = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
        self._checked.setdefault(topic, {})[name] = text
        if not self.rewrite:
            assert text == self.sections(topic).get(name), f"{topic}: {name}: make approve rewrites it"

    def check_names(self, topic: str, names: list[str]) -> None:
        """Compare the names of a topic's sections, in order, with those of its cases."""
        self._names[topic] = names
        if not self.rewrite:
            assert list(self.sections(topic)) == names, f"{topic}: make approve rewrites it"

    def write(self) -> None:
        """Write the texts that were checked, if they are to be rewritten, beside those that were not."""
        if not self.rewrite:
            return
        FOLDER.mkdir(exist_ok=True)
        for topic, checked in self._checked.items():
            texts = self.sections(topic) | checked
            names = [name for name in self._names.get(topic, texts) if name in texts]
            lines = "\n\n".join(f"{MARK}{name}\n{texts[name]}" for name in names)
            (FOLDER / f"{topic}.txt").write_text(lines + "\n")
