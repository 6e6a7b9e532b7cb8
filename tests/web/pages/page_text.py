"""The text of a page: what a person reads, sends and follows, without its layout.

    # Pay                                  a heading, by its level
    [Open the run](/run/order-7)           a link
    [Deny: about=deny, form decide]        a button, with what it sends
    {digest=…}                             a hidden field
    (text:/arguments/amount = 9)           a control and its value; `[x]` and `[ ]` are boxes
    alert: …                               a region that is read aloud; the next lines are inside
    > Technical details                    folded content; `v` where it is open
    | Paid.                                a text line by line

`(asks)` and its like are the tone of a notice, a badge or a line. A text that only a pointer shows
is in `⟨⟩`, and so is what a time is for programs where a script writes it again.
"""

from collections.abc import Collection, Iterable

from tests.web.pages.page_elements import CONTROLS, Element, find, parse_page

INLINE = {
    *("a", "abbr", "b", "button", "code", "del", "em", "i", "img", "input", "ins", "kbd", "label"),
    *("option", "output", "select", "small", "span", "strong", "textarea", "time", "noscript"),
}
INSIDE = {"form", "fieldset", "li", "blockquote", "dialog"}
UNREAD = ("head", "style", "datalist")
ROLES = {"alert", "status", "note", "log", "search"}
TONES = {"good", "bad", "asks", "wrong"}
# What a tone belongs to: others have it for their color alone.
TONED_CLASSES = {"notice", "badge", "tag", "outcome", "urgent", "wrong"}
TONED_TAGS = ("li", "b")
AROUND = {
    "code": ("`", "`"),
    "del": (" d⟨", "⟩ "),
    "ins": (" i⟨", "⟩ "),
    "noscript": ("without scripts: ", ""),
}


def text_of(html: str, within: Collection[str] = ("main",)) -> str:
    """Return the text of a page: of the elements of these tags, classes, ids or names."""
    page, writer = parse_page(html), _Writer()
    if "main" in within:
        [title] = find([page], ["<title>"])
        writer.line(f"title: {' '.join(title.text.split())}")
    # A name that is in the page's own part is not looked for in its frame.
    found = find(find([page], ["main"]), within) or find([page], within)
    assert found, f"the page has none of {within}"
    for one in found:
        writer.block(one)
    return "\n".join(line.rstrip() for line in writer.lines) + "\n"


class _Writer:
    """Writes lines; inline text is collected until the next block."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self._parts: list[str] = []

    def line(self, text: str) -> None:
        """Write a line; the mark of a list's entry is at the head of its first one."""
        mark = "".join(self._parts)
        self._parts.clear()
        self.lines.append(f"{'  ' * self.depth}{mark}{text}")

    def block(self, element: Element) -> None:
        """Write an element that begins a line of its own."""
        self._end()
        self._begin(element)
        match element.tag:
            case "pre":
                self._literal(element)
            case "div" if "body" in element.classes:
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
                    self._end()
                self.depth += is_inside
                self._inner(element.children)
                self._end()
                self.depth -= is_inside

    def _end(self) -> None:
        """End the line."""
        text = " ".join("".join(self._parts).split())
        self._parts.clear()
        if text == "-":
            self._parts.append("- ")
        elif text:
            self.line(text)

    def _begin(self, element: Element) -> None:
        """Write what an element is, before what is in it."""
        tag, role = element.tag, element.get("role")
        if tag == "li":
            self._parts.append("- ")
        if element.has("hidden"):
            self._parts.append("(hidden) ")
        if role in ROLES:
            self._parts.append(f"{role}: ")
        self._tone(element, is_toned=bool(role))
        if element.has("aria-label"):
            self._parts.append(f"{element.get('aria-label')}: ")
        for attribute, what in (("sse-connect", "follows"), ("hx-get", "loads")):
            if element.has(attribute):
                self._end()
                self.line(f"({what} {element.get(attribute)})")
        if tag[:1] == "h" and tag[1:].isdecimal():
            self._parts.append("#" * int(tag[1]) + " ")
        if tag == "form" and element.has("method"):
            name = f"{element.get('id')}: " if element.has("id") else ""
            self.line(f"form {name}{element.get('method')} {element.get('action') or 'here'}")

    def _tone(self, element: Element, *, is_toned: bool = False) -> None:
        if is_toned or element.classes & TONED_CLASSES or element.tag in TONED_TAGS:
            self._parts += [f" ({tone}) " for tone in sorted(element.classes & TONES)]

    def _inner(self, children: Iterable[Element | str]) -> None:
        was_inline = False
        for child in children:
            if isinstance(child, str):
                self._parts.append(child)
            elif child.tag in INLINE:
                if was_inline:  # beside each other, they are apart by their style
                    self._parts.append(" ")
                self._inline(child)
            elif child.tag not in UNREAD and not child.is_silent:
                self.block(child)
            was_inline = isinstance(child, Element) and child.tag in INLINE

    def _literal(self, element: Element) -> None:
        """Write a text line by line, as it is shown."""
        for line in element.text.removeprefix("\n").split("\n"):
            self.line(f"| {line}".rstrip())

    def _details(self, element: Element) -> None:
        [summary] = [one for one in element.elements if one.tag == "summary"]
        sign = "v" if element.has("open") else ">"
        self._parts.append(f"{sign} {summary.get('aria-label')} ")
        self._inner(summary.children)
        self._end()
        self.depth += 1
        self._inner(one for one in element.children if one is not summary)
        self._end()
        self.depth -= 1

    def _row(self, element: Element) -> None:
        cells = []
        for cell in element.elements:
            writer = _Writer()
            writer._inner(cell.children)
            writer._end()
            cells.append(" / ".join(map(str.strip, writer.lines)))
        self.line(" | ".join(cells))

    def _pairs(self, element: Element) -> None:
        """Write a list of names and their values."""
        for child in element.elements:
            match child.tag:
                case "div":
                    self._pairs(child)
                case "dt":
                    self._end()
                    self._inner([*child.children, ": "])
                case "dd":
                    start = len(self.lines)
                    self.depth += 1
                    self._inner(child.children)
                    self._end()
                    self.depth -= 1
                    for line in self.lines[start : start + 1]:  # behind the name
                        self.lines[start] = line.removeprefix("  ")

    def _inline(self, element: Element) -> None:
        """Write an element within a line."""
        tag = element.tag
        if element.is_silent and tag != "button":
            return
        self._tone(element)
        if tag in CONTROLS:
            self._parts.append(f" {_control(element)} ")
            return
        if tag == "noscript":
            self._end()
        before, after = _around(element)
        self._parts.append(before)
        self._inner(element.children)
        self._parts.append(after)


def _control(element: Element) -> str:
    """Return a control: its name and value, and how it limits what is entered."""
    name, value, kind = element.get("name"), element.get("value"), element.get("type")
    mode, label = element.get("inputmode"), element.get("aria-label")
    limits = {
        f"at most {element.get('maxlength')}": element.has("maxlength"),
        "required": element.has("required"),
        "invalid": element.has("aria-invalid"),
        kind: kind in ("password", "date", "search"),
        mode: mode not in ("", "text"),
        f"form {element.get('form')}": element.has("form"),
        "lines": element.tag == "textarea",
    }
    more = "".join(f", {limit}" for limit, applies in limits.items() if applies)
    if kind == "hidden":
        return f"{{{name}={value}}}"
    if kind in ("checkbox", "radio"):
        return f"{'[x]' if element.has('checked') else '[ ]'} {name}={value}{more}"
    if element.tag == "textarea":
        value = element.text.removeprefix("\n").replace("\n", " ⏎ ")
    if element.tag == "select":
        options = [one for one in element.walk() if one.tag == "option"]
        marked = [("*" if one.has("selected") else "", one) for one in options]
        value = ", ".join(f"{mark}{one.get('value')}: {one.text}" for mark, one in marked)
    return f"({f'{label}: ' if label else ''}{name} = {value}{more})"


def _around(element: Element) -> tuple[str, str]:
    """Return what is before and after the content of an element within a line."""
    match element.tag:
        case "a":
            name = f" = {element.get('aria-label')}" if element.has("aria-label") else ""
            current = " (current)" if element.has("aria-current") else ""
            return "[", f"{name}]({element.get('href')}){current}"
        case "button":
            sent = {
                f"{element.get('name')}={element.get('value')}": element.has("name"),
                f"form {element.get('form')}": element.has("form"),
                f"to {element.get('formaction')}": element.has("formaction"),
                "resets": element.get("type") == "reset",
            }
            sends = ", ".join(text for text, applies in sent.items() if applies)
            return "[", f": {sends}]" if sends else "]"
        case "img":
            return f" (picture: {element.get('alt')} {element.get('src')}) ", ""
        case "time":
            is_rewritten = element.has("data-local")
            more = element.get("title") or (element.get("datetime") if is_rewritten else "")
            return "", f" ⟨{more}⟩" if more else ""
        case tag:
            return AROUND.get(tag, ("", ""))
