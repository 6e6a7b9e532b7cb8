"""A form as a browser submits it: the controls of a page's HTML, with what is in them."""

from collections.abc import Iterable
from html.parser import HTMLParser

from holdfast.web.forms.form_values import FormValue, SubmittedForm


class _Controls(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.owners: list[str] = []
        self._form = ""
        self._area: str | None = None
        self._owner = self._text = ""
        self._select: str | None = None
        self._options: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        if tag in ("input", "textarea", "select"):
            self._owner = said.get("form", self._form)
        match tag:
            case "form":
                self._form = said.get("id", "")
            case "input" if "name" in said and said.get("type") not in ("checkbox", "radio"):
                self._add(said["name"], said.get("value", ""))
            case "input" if "checked" in said:
                self._add(said["name"], said.get("value", "on"))
            case "textarea":
                self._area, self._text = said["name"], ""
            case "select":
                self._select, self._options = said["name"], []
            case "option":
                self._options.append((said["value"], "selected" in said))

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area is not None:
            # The first line end after the tag is none of the text.
            self._add(self._area, self._text.removeprefix("\n"))
            self._area = None
        if tag == "select" and self._select is not None and self._options:
            chosen = [value for value, selected in self._options if selected]
            self._add(self._select, [*chosen, self._options[0][0]][0])
            self._select = None
        if tag == "form":
            self._form = ""

    def _add(self, name: str, text: str) -> None:
        self.found.append((name, text))
        self.owners.append(self._owner)


def submitted(html: str, form: str = "", about: str = "") -> list[tuple[str, str]]:
    """The controls of a page, or of a form of it alone, by id; `about` is of its pressed button."""
    controls = _Controls()
    controls.feed(html)
    controls.close()
    found = zip(controls.found, controls.owners, strict=True)
    sent = [pair for pair, owner in found if form in ("", owner)]
    sent += [("about", about)] if about else []
    return [(name, text.replace("\n", "\r\n")) for name, text in sent]


def read(items: Iterable[tuple[str, str]]) -> FormValue:
    return SubmittedForm(items).value_at()


def changed(form: list[tuple[str, str]], **texts: str) -> list[tuple[str, str]]:
    new = {name.replace("__", ":/", 1).replace("__", "/"): text for name, text in texts.items()}
    assert new.keys() <= {name for name, _ in form}, "there is no such control"
    return [(name, new.get(name, text)) for name, text in form]
