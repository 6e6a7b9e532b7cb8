"""The text of a page: what a person reads, sends and follows, without its layout.

    # Pay                                  a heading, by its level
    [Open the run](/run/order-7)           a link
    [Deny: about=deny, form decide]        a button, with what it sends
    {digest=…}                             a hidden field
    (text:/arguments/amount = 9)           a control and its value; `[x]` and `[ ]` are boxes
    alert: …                               a region that is read aloud; the next lines are inside
    > Technical details                    folded content; `v` where it is open

`(asks)` and its like are the tone of a notice or a badge. A text that only a pointer shows is in
`⟨⟩`, and so is what a time is for programs where a script writes it again. A page that refers to
what it does not have is an error: a label, a description, a form, an anchor.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"br", "hr", "img", "input", "link", "meta", "rect", "wbr"}
INLINE = {
    *("a", "abbr", "b", "button", "code", "del", "em", "i", "img", "input", "ins", "kbd", "label"),
    *("option", "output", "select", "small", "span", "strong", "textarea", "time", "noscript"),
}
INSIDE = {"form", "details", "fieldset", "li", "blockquote", "dialog"}
TONES = {"good", "bad", "asks", "wrong"}
# Elements that a tone belongs to: it is on others for their color alone.
TONED = {"notice", "badge", "tag", "outcome", "urgent"}
ROLES = {"alert", "status", "note", "log", "search"}


_AROUND = {
    "code": ("`", "`"),
    "del": (" d⟨", "⟩ "),
    "ins": (" i⟨", "⟩ "),
    "noscript": ("without scripts: ", ""),
}


@dataclass
class Element:
    """An element of a page; a text is a child of its own."""

    tag: str
    attributes: dict[str, str]
    children: list["Element | str"] = field(default_factory=list)

    def get(self, name: str) -> str:
        """Return an attribute; empty without it."""
        return self.attributes.get(name, "")

    def walk(self) -> Iterator["Element"]:
        """Yield the element and all inside it."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    @property
    def text(self) -> str:
        """Return all text inside it, as it is written."""
        return "".join(one if isinstance(one, str) else one.text for one in self.children)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "option" and self.open[-1].tag == "option":
            self.open.pop()
        made = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_endtag(self, tag: str) -> None:
        if tag == "datalist" and self.open[-1].tag == "option":
            self.open.pop()
        if tag not in VOID:
            assert self.open[-1].tag == tag, f"</{tag}> in <{self.open[-1].tag}>"
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse_page(html: str) -> Element:
    """Return a page, checked: each element is closed, each reference is to an element of it."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    [page] = parser.open
    elements = [*page.walk()]
    ids = [one.get("id") for one in elements if one.get("id")]
    assert len(ids) == len({*ids}), f"two elements have one id: {sorted(ids)}"
    labelled = {one.get("for") for one in elements if one.tag == "label"}
    labelled |= {
        each.get("id")
        for one in elements
        if one.tag == "label"
        for each in one.walk()
        if each.get("id")
    }
    for one in elements:
        named = one.get("aria-labelledby").split() + one.get("aria-describedby").split()
        named += [one.get(name) for name in ("for", "form", "list") if one.get(name)]
        named += [one.get("href")[1:]] if one.get("href").startswith("#") else []
        assert {*named} <= {*ids, "main"}, f"{one.tag} refers to {named}"
        if one.tag in ("input", "textarea", "select") and one.get("type") != "hidden":
            is_inside = any(one in [*each.walk()] for each in elements if each.tag == "label")
            is_labelled = one.get("id") in labelled or one.get("aria-label")
            assert is_inside or is_labelled or one.get("aria-labelledby"), f"no label: {one}"
        if one.tag == "form" and one.get("method") == "post" and ids:
            hidden = {each.get("name") for each in one.walk() if each.tag == "input"}
            assert {"form_token", "next"} & hidden, f"a form without a token: {one.get('action')}"
    return page


class _Writer:
    """Writes lines; inline text is collected until the next block."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self._parts: list[str] = []

    def end(self) -> None:
        """End the line."""
        text = " ".join("".join(self._parts).split())
        self._parts.clear()
        if text == "-":
            self._parts.append("- ")
        elif text:
            self.line(text)

    def line(self, text: str) -> None:
        """Write a line; the mark of a list's entry is at the head of its first one."""
        mark = "".join(self._parts)
        self._parts.clear()
        self.lines.append(f"{'  ' * self.depth}{mark}{text}")

    def block(self, element: Element) -> None:
        """Write an element that begins a line of its own."""
        self.end()
        self._begin(element)
        match element.tag:
            case "pre":
                self._literal(element)
            case "div" if "body" in element.get("class").split():
                self._literal(element)
            case "details":
                self._details(element)
            case "tr":
                self._row(element)
            case "dl":
                self._pairs(element)
            case tag:
                is_inside = tag in INSIDE or element.get("role") in ROLES
                if is_inside and tag != "li":
                    self.end()
                self.depth += is_inside
                self.children(element)
                self.end()
                self.depth -= is_inside

    def _begin(self, element: Element) -> None:
        """Write what an element is, before what is in it."""
        tag, classes = element.tag, {*element.get("class").split()}
        self._parts += ["- "] * (tag == "li")
        self._parts += ["(hidden) "] * ("hidden" in element.attributes)
        self._parts += [f"{element.get('role')}: "] * (element.get("role") in ROLES)
        is_toned = classes & {*TONED, "wrong"} or element.get("role") or tag == "li"
        self._parts += [f"({tone}) " for tone in sorted(classes & TONES) if is_toned]
        self._parts += [f"{name}: " for name in [element.get("aria-label")] if name]
        for attribute, what in (("sse-connect", "follows"), ("hx-get", "loads")):
            if element.get(attribute):
                self.end()
                self.line(f"({what} {element.get(attribute)})")
        if tag[0] == "h" and tag[1:].isdecimal():
            self._parts.append("#" * int(tag[1]) + " ")
        if tag == "form" and element.get("method"):
            name = element.get("id")
            to = f"{element.get('method')} {element.get('action') or 'here'}"
            self.line(f"form {name + ': ' if name else ''}{to}")

    def children(self, element: Element) -> None:
        before: Element | str = ""
        for child in element.children:
            if isinstance(child, str):
                self._parts.append(child)
            elif child.tag in INLINE:
                # Beside each other, they are apart by their style.
                self._parts.append(" " * (_tag(before) in INLINE))
                self.inline(child)
            elif child.tag not in ("head", "style", "datalist") and not _is_silent(child):
                self.block(child)
            before = child

    def _literal(self, element: Element) -> None:
        """Write a text line by line, as it is shown."""
        for line in element.text.removeprefix("\n").split("\n"):
            self.line(f"| {line}".rstrip())

    def _details(self, element: Element) -> None:
        sign = "v" if "open" in element.attributes else ">"
        [summary] = [one for one in element.children if _tag(one) == "summary"]
        assert isinstance(summary, Element)
        self.end()
        self._parts.append(f"{sign} {summary.get('aria-label')} ")
        self.children(summary)
        self.end()
        self.depth += 1
        for child in element.children:
            if isinstance(child, str):
                self._parts.append(child)
            elif child is not summary:
                self.inline(child) if child.tag in INLINE else self.block(child)
        self.end()
        self.depth -= 1

    def _row(self, element: Element) -> None:
        texts = []
        for cell in (one for one in element.children if isinstance(one, Element)):
            writer = _Writer()
            writer.children(cell)
            writer.end()
            texts.append(" / ".join(map(str.strip, writer.lines)))
        self.line(" | ".join(texts))

    def _pairs(self, element: Element) -> None:
        """Write a list of names and their values."""
        for child in element.children:
            match child:
                case Element(tag="div"):
                    self._pairs(child)
                case Element(tag="dt"):
                    self.end()
                    self.children(child)
                    self._parts.append(": ")
                case Element(tag="dd"):
                    self.depth += 1
                    start = len(self.lines)
                    self.children(child)
                    self.end()
                    self.depth -= 1
                    if len(self.lines) > start:
                        self.lines[start] = self.lines[start].removeprefix("  ")

    def inline(self, element: Element) -> None:
        """Write an element within a line."""
        tag, classes = element.tag, {*element.get("class").split()}
        if _is_silent(element) and tag != "button":
            return
        if classes & TONED or tag == "b":
            self._parts += [f" ({tone}) " for tone in sorted(classes & TONES)]
        if tag in ("input", "textarea", "select"):
            self._parts.append(f" {self._control(element)} ")
            return
        if tag == "img":
            self._parts.append(f" (picture: {element.get('alt')} {element.get('src')}) ")
            return
        if tag == "noscript":
            self.end()
        before, after = _around(element)
        self._parts.append(before)
        self.children(element)
        self._parts.append(after)

    def _control(self, element: Element) -> str:
        name, value, kind = element.get("name"), element.get("value"), element.get("type")
        label = element.get("aria-label")
        more = [f"at most {element.get('maxlength')}"] * ("maxlength" in element.attributes)
        more += ["required"] * ("required" in element.attributes)
        more += ["invalid"] * ("aria-invalid" in element.attributes)
        more += [kind] * (kind in ("password", "date", "search"))
        more += [element.get("inputmode")] * (element.get("inputmode") not in ("", "text"))
        more += [f"form {element.get('form')}"] * ("form" in element.attributes)
        shown = f", {', '.join(more)}" if more else ""
        if kind == "hidden":
            return f"{{{name}={value}}}"
        if kind in ("checkbox", "radio"):
            box = "[x]" if "checked" in element.attributes else "[ ]"
            return f"{box} {name}={value}{shown}"
        if element.tag == "textarea":
            value = element.text.removeprefix("\n").replace("\n", " ⏎ ")
            shown += ", lines"
        if element.tag == "select":
            options = [one for one in element.walk() if one.tag == "option"]
            value = ", ".join(
                f"{'*' * ('selected' in one.attributes)}{one.get('value')}: {one.text}"
                for one in options
            )
        return f"({f'{label}: ' if label else ''}{name} = {value}{shown})"


def _around(element: Element) -> tuple[str, str]:
    """Return what is before and after the content of an element within a line."""
    match element.tag:
        case "a":
            name, current = element.get("aria-label"), element.get("aria-current")
            named = f" = {name}" if name else ""
            return "[", f"{named}]({element.get('href')}){' (current)' if current else ''}"
        case "button":
            sends = [f"{element.get('name')}={element.get('value')}"] * bool(element.get("name"))
            for attribute, word in (("form", "form"), ("formaction", "to")):
                sends += [f"{word} {element.get(attribute)}"] * bool(element.get(attribute))
            sends += ["resets"] * (element.get("type") == "reset")
            return "[", f"{': ' if sends else ''}{', '.join(sends)}]"
        case "time":
            is_local = "data-local" in element.attributes
            more = element.get("title") or element.get("datetime") * is_local
            return "", f" ⟨{more}⟩" if more else ""
        case tag:
            return _AROUND.get(tag, ("", ""))


def _tag(one: Element | str) -> str:
    return one.tag if isinstance(one, Element) else ""


def _is_silent(element: Element) -> bool:
    """Report whether a reader is not given an element; the dialog of keys is on each page."""
    is_keys = element.get("id") == "keys" or element.get("class") == "keys-hint"
    return element.get("aria-hidden") == "true" or is_keys


def _is_row(element: Element) -> bool:
    return element.tag == "tr"


def text_of(html: str, within: Collection[str] = ("main",)) -> str:
    """Return the text of a page: of the elements of these tags, classes, ids or names."""
    page = parse_page(html)
    writer, whole = _Writer(), [page]
    # A name that is in the page's own part is not looked for in its frame.
    mains = [one for one in page.walk() if one.tag == "main"]
    found = _find(mains, within) or _find(whole, within)
    if "main" in within:
        found = [*_find(whole, ["<title>"]), *found]
    for one in found or [page]:
        if one.tag == "title":
            writer.line(f"title: {' '.join(one.text.split())}")
        elif one.tag in ("main", ""):
            writer.children(one)
        else:
            writer.block(one)
        writer.end()
    return "\n".join(line.rstrip() for line in writer.lines) + "\n"


def _find(wholes: Iterable[Element], names: Collection[str]) -> list[Element]:
    """Return the outermost elements of these names, in order."""
    found = list[Element]()
    for one in wholes:
        if _names(one) & {*names}:
            found.append(one)
        elif not _is_silent(one) or "keys" in names:
            found += _find([each for each in one.children if isinstance(each, Element)], names)
    return found


def _names(element: Element) -> set[str]:
    names = ("id", "aria-label", "aria-labelledby")
    tag = f"<{element.tag}>" if element.tag == "title" else element.tag
    return {tag, *map(element.get, names), *element.get("class").split()}
