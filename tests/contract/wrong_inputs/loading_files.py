"""Files that cannot be read, or not as what they are."""

from tests.contract.wrong_inputs.loading import CHARGED, MODEL, Place, WrongInput


def unread(name: str, path: str, content: str | bytes | Place, says: str) -> WrongInput:
    """A file that is not read; the line begins behind its path."""
    return WrongInput(name, {path: content}, [path + says])


FILES = [
    unread(
        "a tab",
        "tools/t.yaml",
        CHARGED + "properties:\n\tamount: {type: number}\n",
        ":3: this is no YAML: a tab is in the indentation; indent with spaces",
    ),
    unread(
        "a key twice",
        "tools/t.yaml",
        CHARGED + "title: A\ntitle: B\n",
        ":3: the key `title` occurs twice; keep one of them",
    ),
    unread(
        "a key twice in JSON",
        "tools/t.json",
        '{"_activity": "charge",\n "title": "A",\n "title": "B"}',
        ":3: the key `title` occurs twice; keep one of them",
    ),
    unread(
        "a colon in a text",
        "tools/t.yaml",
        CHARGED + "description: Charge: a card\n",
        ":2: this is no YAML: a colon is where no value can begin; put a text that holds a "
        "colon in quotes, or fix the indentation",
    ),
    unread(
        "a comma in a text in braces",
        "tools/t.yaml",
        CHARGED + "properties:\n  order: {type: string, description: The order, as sent}\n",
        ":3: `as sent` has no value; put a text that holds a comma in quotes, or write "
        "`key: value`",
    ),
    unread(
        "a text that begins with @",
        "tools/t.yaml",
        CHARGED + "description: @ once\n",
        ":2: this is no YAML: a text cannot begin with @; put it in quotes",
    ),
    unread(
        "a bracket that is never closed",
        "tools/t.yaml",
        CHARGED + "properties: {amount: {type: number}\n",
        ":3: this is no YAML: the bracket of line 2 is never closed; add `}`",
    ),
    unread(
        "quotes that are never closed",
        "tools/t.yaml",
        CHARGED + 'description: "Charge\ntitle: Card\n',
        ":4: this is no YAML: the quotes of line 2 are never closed; close them",
    ),
    unread(
        "a line out of line",
        "tools/t.yaml",
        CHARGED + "properties:\n    amount: {}\n  order: {}\n",
        ":4: this is no YAML: this does not line up with what is above it; indent it like its "
        "neighbours, or put the whole text in quotes",
    ),
    unread(
        "a tag that is not of its value",
        "tools/t.yaml",
        CHARGED + "title: !!bool [a]\n",
        ":2: the tag `!!bool` is not supported here; leave it out",
    ),
    unread(
        "a tag of Python",
        "tools/t.yaml",
        CHARGED + "title: !!python/name:os.system {}\n",
        ":2: the tag `!!python/name:os.system` is not supported here; leave it out",
    ),
    unread(
        "a key that is merged",
        "tools/t.yaml",
        CHARGED + "<<: {title: A}\n",
        ":2: keys are not merged here; write them out",
    ),
    unread(
        "two documents",
        "tools/t.yaml",
        CHARGED + "---\n_activity: charge\n",
        ":2: this is no YAML: a second document begins here; keep one to a file",
    ),
    unread(
        "a comma too many",
        "tools/t.json",
        '{\n  "_activity": "charge",\n}',
        ":2: this is no JSON: a comma is before the bracket (column 24); take the comma out",
    ),
    unread(
        "a comma too few",
        "tools/t.json",
        '{\n  "_activity": "charge"\n  "title": "A"\n}',
        ":3: this is no JSON: a comma is missing (column 3); put one before this",
    ),
    unread(
        "single quotes",
        "tools/t.json",
        "{'_activity': 'charge'}",
        ':1: this is no JSON: single quotes mean nothing (column 2); write double quotes: "…"',
    ),
    unread(
        "a comment",
        "tools/t.json",
        '{\n  // how\n  "_activity": "charge"\n}',
        ":2: this is no JSON: it has no comments (column 3); take it out, or write YAML",
    ),
    unread(
        "a value of Python",
        "tools/t.json",
        '{"_activity": "charge", "_sideEffects": True}',
        ":1: this is no JSON: `True` is Python (column 41); write `true`",
    ),
    unread(
        "a file cut short",
        "tools/t.json",
        '{"_activity": "charge"',
        ":1: this is no JSON: it is incomplete (column 23); close what is open: a bracket, or "
        "a brace",
    ),
    unread(
        "a number that JSON lacks",
        "tools/t.json",
        '{"_activity": "charge", "default": NaN}',
        ":1: it contains values that JSON cannot represent; take out infinite numbers and"
        " half characters (lone surrogates)",
    ),
    unread(
        "an empty file",
        "tools/t.json",
        "",
        ":1: the file is empty; write something in it, or remove it",
    ),
    unread(
        "nothing but comments",
        "tools/t.yaml",
        "# later\n",
        ":1: the file has no content; write something in it, or remove it",
    ),
    unread(
        "a file in UTF-16",
        "tools/t.yaml",
        CHARGED.encode("utf-16"),
        ":1: this text is UTF-16; save it as UTF-8",
    ),
    unread(
        "a file in Latin-1",
        "tools/t.yaml",
        (CHARGED + "title: Café\n").encode("latin-1"),
        ":2: this text is not UTF-8; save it as UTF-8",
    ),
    unread(
        "a file too large",
        "tools/t.json",
        b" " * 1_000_001,
        ": 1000001 bytes are too many; split it: at most 1000000",
    ),
    unread(
        "front matter that is never closed",
        "agents/a.md",
        "---\nmodel: {endpoint: m}\n\nBe kind.\n",
        ":1: the front matter is never closed; write a line `---` between the agent's fields "
        "and its instructions",
    ),
    unread(
        "no front matter",
        "agents/a.md",
        "Be kind.\n",
        ":1: it has no front matter; begin the file with the agent's fields in YAML between two "
        "lines `---`",
    ),
    unread(
        "instructions in both places",
        "agents/a.md",
        "---\nmodel: {endpoint: m}\ninstructions: Be brief.\n---\nBe kind.\n",
        ":3: the instructions occur twice; keep the text below, or this field",
    ),
    unread(
        "a mistake in front matter",
        "agents/a.md",
        "---\nmodel:\n  endpont: m\n---\nBe kind.\n",
        ":3: unknown field `endpont`; did you mean `endpoint`?",
    ),
    unread(
        "an ending hidden behind another",
        "tools/charge.yml.txt",
        CHARGED,
        ": a file that ends in `.yml.txt` is not read; call it `charge.yml`",
    ),
    unread(
        "an ending misspelt",
        "agents/desk.ymal",
        MODEL,
        ": a file that ends in `.ymal` is not read; call it `desk.yaml`",
    ),
    unread(
        "a folder in the place of a file",
        "tools/charge.json",
        Place.FOLDER,
        ": this is a folder; call it `charge`",
    ),
    WrongInput(
        "a folder without its s",
        {"tool/charge.yaml": CHARGED, "tools": Place.NOTHING},
        [
            "tool: a folder of this name is not read; call it `tools`",
        ],
    ),
    unread(
        "a link that leads nowhere",
        "tools/charge.yaml",
        Place.DEAD_LINK,
        ": the target of this link does not exist; fix the link, or remove it",
    ),
    unread(
        "a link to a folder",
        "tools/shared",
        Place.LINK_TO_FOLDER,
        ": a link to a folder is not followed; put the folder itself here, or link its files",
    ),
    unread(
        "a file's name that is no name",
        "tools/charge card.yaml",
        CHARGED,
        ":1: the file's name `charge card` is not valid as a name; give the file another, or write"
        " one as `_tool`: at most 128 letters, digits, `_`, `.` and `-`, of which the first is a "
        "letter or `_`",
    ),
    WrongInput(
        "two tools of one name",
        {"tools/pay.yaml": CHARGED, "tools/refund.yaml": CHARGED + "_tool: pay\n"},
        [
            "tools/refund.yaml:1: the tool name `pay` is used by tools/pay.yaml:1; give one "
            "of them another name",
        ],
    ),
    WrongInput(
        "two agents of one name",
        {"agents/a.yaml": MODEL, "agents/b.yaml": MODEL + "name: a\n"},
        [
            "agents/b.yaml:1: the agent name `a` is used by agents/a.yaml:1; give one of "
            "them another name",
        ],
    ),
    WrongInput(
        "a script that is not there",
        {"endpoints.yaml": "m: {provider: script, file: scrpt.yaml}\n"},
        [
            "scrpt.yaml: there is no such file; did you mean `script.yaml`?",
        ],
    ),
    unread(
        "an agent with the name of the delegate without one",
        "agents/anonymous.yaml",
        MODEL,
        ":1: a delegate `anonymous` cannot be an agent of the catalog; give it another name",
    ),
]
