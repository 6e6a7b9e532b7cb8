"""The elements of a page, checked: each is closed, and each reference is to one of the page.

A page that refers to what it does not have is an error: a label, a description, a form, an anchor.
So is a control without a label, and a form that could be sent from elsewhere.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"br", "hr", "img", "input", "link", "meta", "rect", "wbr"}
CONTROLS = ("input", "textarea", "select")


@dataclass(eq=False)
class Element:
    """An element of a page; a text is a child of its own."""

    tag: str
    attributes: dict[str, str]
    children: list["Element | str"] = field(default_factory=list)

    def get(self, name: str) -> str:
        """Return an attribute; empty without it."""
        return self.attributes.get(name, "")

    def has(self, name: str) -> bool:
        """Return whether it has an attribute, with a value or without."""
        return name in self.attributes

    @property
    def classes(self) -> set[str]:
        return {*self.get("class").split()}

    @property
    def elements(self) -> list["Element"]:
        """Return the elements that it contains directly."""
        return [one for one in self.children if isinstance(one, Element)]

    def walk(self) -> Iterator["Element"]:
        """Yield the element and all inside it."""
        yield self
        for child in self.elements:
            yield from child.walk()

    @property
    def text(self) -> str:
        """Return all text inside it, as it is written."""
        return "".join(one if isinstance(one, str) else one.text for one in self.children)

    @property
    def is_silent(self) -> bool:
        """Report whether a reader is not given it; the dialog of keys is on each page."""
        is_keys = self.get("id") == "keys" or self.get("class") == "keys-hint"
        return is_keys or self.get("aria-hidden") == "true"

    @property
    def names(self) -> set[str]:
        """Return what it can be found by: its tag, its classes, its id and its name."""
        own = ("id", "aria-label", "aria-labelledby")
        tag = "<title>" if self.tag == "title" else self.tag
        return {tag, *map(self.get, own), *self.classes}


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._end_option(tag == "option")
        made = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_endtag(self, tag: str) -> None:
        self._end_option(tag == "datalist")
        if tag not in VOID:
            assert self.open[-1].tag == tag, f"</{tag}> in <{self.open[-1].tag}>"
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def _end_option(self, ends: bool) -> None:
        """End the option of a list of suggestions, which needs no end of its own."""
        if ends and self.open[-1].tag == "option":
            self.open.pop()


def parse_page(html: str) -> Element:
    """Return a page."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    [page] = parser.open
    elements = [*page.walk()]
    ids = [one.get("id") for one in elements if one.has("id")]
    assert len(ids) == len({*ids}), f"two elements have one id: {sorted(ids)}"
    labels = [one for one in elements if one.tag == "label"]
    labelled = {one for label in labels for one in label.walk()}
    for one in elements:
        references = one.get("aria-labelledby").split() + one.get("aria-describedby").split()
        references += [one.get(name) for name in ("for", "form", "list") if one.get(name)]
        references += [one.get("href")[1:]] if one.get("href").startswith("#") else []
        assert {*references} <= {*ids, "main"}, f"<{one.tag}> refers to {references}"
        if one.tag in CONTROLS and one.get("type") != "hidden":
            is_named = one in labelled or one.has("aria-label") or one.has("aria-labelledby")
            is_named |= one.get("id") in {label.get("for") for label in labels}
            assert is_named, f"no label: {one.attributes}"
        # The form of a link that decides has its token in the address, to which it is sent.
        if one.tag == "form" and one.get("method") == "post" and one.has("action"):
            fields = {each.get("name") for each in one.walk() if each.tag == "input"}
            assert {"form_token", "next"} & fields, f"a form without a token: {one.attributes}"
    return page


def find(wholes: Iterable[Element], names: Collection[str]) -> list[Element]:
    """Return the outermost elements of these names, in order."""
    found = list[Element]()
    for one in wholes:
        if one.names & {*names}:
            found.append(one)
        elif not one.is_silent or "keys" in names:
            found += find(one.elements, names)
    return found
