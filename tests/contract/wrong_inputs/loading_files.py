"""Files that cannot be read, or not as what they are."""

from tests.contract.wrong_inputs.loading import CHARGED, MODEL, Place, Wrong

FILES = [
    Wrong(
        "a tab",
        {"tools/t.yaml": CHARGED + "properties:\n\tamount: {type: number}\n"},
        [
            "tools/t.yaml:3: this is no YAML: a tab is where spaces belong; indent with spaces",
        ],
    ),
    Wrong(
        "a key twice",
        {"tools/t.yaml": CHARGED + "title: A\ntitle: B\n"},
        [
            "tools/t.yaml:3: the key `title` stands twice; keep one of them",
        ],
    ),
    Wrong(
        "a key twice in JSON",
        {"tools/t.json": '{"_activity": "charge",\n "title": "A",\n "title": "B"}'},
        [
            "tools/t.json:3: the key `title` stands twice; keep one of them",
        ],
    ),
    Wrong(
        "a colon in a text",
        {"tools/t.yaml": CHARGED + "description: Charge: a card\n"},
        [
            "tools/t.yaml:2: this is no YAML: a colon is where no value can begin; put a "
            "text that holds a colon in quotes, or fix the indentation",
        ],
    ),
    Wrong(
        "a text that begins with @",
        {"tools/t.yaml": CHARGED + "description: @ once\n"},
        [
            "tools/t.yaml:2: this is no YAML: a text cannot begin with @; put it in quotes",
        ],
    ),
    Wrong(
        "a bracket that is never closed",
        {"tools/t.yaml": CHARGED + "properties: {amount: {type: number}\n"},
        [
            "tools/t.yaml:3: this is no YAML: the bracket of line 2 is never closed; add `}`",
        ],
    ),
    Wrong(
        "quotes that are never closed",
        {"tools/t.yaml": CHARGED + 'description: "Charge\ntitle: Card\n'},
        [
            "tools/t.yaml:4: this is no YAML: the quotes of line 2 are never closed; close them",
        ],
    ),
    Wrong(
        "a line out of line",
        {"tools/t.yaml": CHARGED + "properties:\n    amount: {}\n  order: {}\n"},
        [
            "tools/t.yaml:4: this is no YAML: this does not line up with what is above it; "
            "indent it like its neighbours, or put the whole text in quotes",
        ],
    ),
    Wrong(
        "a tag of Python",
        {"tools/t.yaml": CHARGED + "title: !!python/name:os.system {}\n"},
        [
            "tools/t.yaml:2: the tag `!!python/name:os.system` is not supported here; leave it out",
        ],
    ),
    Wrong(
        "a key that is merged",
        {"tools/t.yaml": CHARGED + "<<: {title: A}\n"},
        [
            "tools/t.yaml:2: keys are not merged here; write them out",
        ],
    ),
    Wrong(
        "two documents",
        {"tools/t.yaml": CHARGED + "---\n_activity: charge\n"},
        [
            "tools/t.yaml:2: this is no YAML: a second document begins here; keep one to a file",
        ],
    ),
    Wrong(
        "a comma too many",
        {"tools/t.json": '{\n  "_activity": "charge",\n}'},
        [
            "tools/t.json:2: this is no JSON: a comma is before the bracket (column 24); "
            "take the comma out",
        ],
    ),
    Wrong(
        "a comma too few",
        {"tools/t.json": '{\n  "_activity": "charge"\n  "title": "A"\n}'},
        [
            "tools/t.json:3: this is no JSON: a comma is missing (column 3); put one before this",
        ],
    ),
    Wrong(
        "single quotes",
        {"tools/t.json": "{'_activity': 'charge'}"},
        [
            "tools/t.json:1: this is no JSON: single quotes mean nothing (column 2); write "
            'double quotes: "…"',
        ],
    ),
    Wrong(
        "a comment",
        {"tools/t.json": '{\n  // how\n  "_activity": "charge"\n}'},
        [
            "tools/t.json:2: this is no JSON: it has no comments (column 3); take it out, or "
            "write YAML",
        ],
    ),
    Wrong(
        "a value of Python",
        {"tools/t.json": '{"_activity": "charge", "_sideEffects": True}'},
        [
            "tools/t.json:1: this is no JSON: `True` is Python (column 41); write `true`",
        ],
    ),
    Wrong(
        "a file cut short",
        {"tools/t.json": '{"_activity": "charge"'},
        [
            "tools/t.json:1: this is no JSON: it ends too early (column 23); close what is "
            "open: a bracket, or a brace",
        ],
    ),
    Wrong(
        "a number that JSON lacks",
        {"tools/t.json": '{"_activity": "charge", "default": NaN}'},
        [
            "tools/t.json:1: it holds what JSON does not have; take out infinite numbers and "
            "half characters (lone surrogates)",
        ],
    ),
    Wrong(
        "an empty file",
        {"tools/t.json": ""},
        [
            "tools/t.json:1: the file is empty; write something in it, or remove it",
        ],
    ),
    Wrong(
        "nothing but comments",
        {"tools/t.yaml": "# later\n"},
        [
            "tools/t.yaml:1: the file has no content; write something in it, or remove it",
        ],
    ),
    Wrong(
        "a file in UTF-16",
        {"tools/t.yaml": CHARGED.encode("utf-16")},
        [
            "tools/t.yaml:1: this text is UTF-16; save it as UTF-8",
        ],
    ),
    Wrong(
        "a file in Latin-1",
        {"tools/t.yaml": (CHARGED + "title: Café\n").encode("latin-1")},
        [
            "tools/t.yaml:2: this text is not UTF-8; save it as UTF-8",
        ],
    ),
    Wrong(
        "a file too large",
        {"tools/t.json": b" " * 1_000_001},
        [
            "tools/t.json: 1000001 bytes are too many; split it: at most 1000000",
        ],
    ),
    Wrong(
        "front matter that is never closed",
        {"agents/a.md": "---\nmodel: {endpoint: m}\n\nBe kind.\n"},
        [
            "agents/a.md:1: the front matter is never closed; write a line `---` between the "
            "agent's fields and its instructions",
        ],
    ),
    Wrong(
        "no front matter",
        {"agents/a.md": "Be kind.\n"},
        [
            "agents/a.md:1: it has no front matter; begin the file with the agent's fields "
            "in YAML between two lines `---`",
        ],
    ),
    Wrong(
        "instructions in both places",
        {"agents/a.md": "---\nmodel: {endpoint: m}\ninstructions: Be brief.\n---\nBe kind.\n"},
        [
            "agents/a.md:3: the instructions occur twice; keep the text below, or this field",
        ],
    ),
    Wrong(
        "a mistake in front matter",
        {"agents/a.md": "---\nmodel:\n  endpont: m\n---\nBe kind.\n"},
        [
            "agents/a.md:3: unknown field `endpont`; did you mean `endpoint`?",
        ],
    ),
    Wrong(
        "an ending hidden behind another",
        {"tools/charge.yml.txt": CHARGED},
        [
            "tools/charge.yml.txt: a file that ends in `.yml.txt` is not read; call it "
            "`charge.yml`",
        ],
    ),
    Wrong(
        "an ending misspelt",
        {"agents/desk.ymal": MODEL},
        [
            "agents/desk.ymal: a file that ends in `.ymal` is not read; call it `desk.yaml`",
        ],
    ),
    Wrong(
        "a folder in the place of a file",
        {"tools/charge.json": Place.FOLDER},
        [
            "tools/charge.json: this is a folder; call it `charge`",
        ],
    ),
    Wrong(
        "a folder without its s",
        {"tool/charge.yaml": CHARGED, "tools": Place.NOTHING},
        [
            "tool: a folder of this name is not read; call it `tools`",
        ],
    ),
    Wrong(
        "a link that leads nowhere",
        {"tools/charge.yaml": Place.DEAD_LINK},
        [
            "tools/charge.yaml: this link leads nowhere; fix the link, or remove it",
        ],
    ),
    Wrong(
        "a link to a folder",
        {"tools/shared": Place.LINK_TO_FOLDER},
        [
            "tools/shared: a link to a folder is not followed; put the folder itself here, or "
            "link its files",
        ],
    ),
    Wrong(
        "a file's name that is no name",
        {"tools/charge card.yaml": CHARGED},
        [
            "tools/charge card.yaml:1: the file's name `charge card` is no good name; give "
            "the file another, or say one with `_tool`: at most 128 letters, digits, `_`, "
            "`.` and `-`, of which the first is a letter",
        ],
    ),
    Wrong(
        "two tools of one name",
        {"tools/pay.yaml": CHARGED, "tools/refund.yaml": CHARGED + "_tool: pay\n"},
        [
            "tools/refund.yaml:1: the tool name `pay` is taken by tools/pay.yaml:1; give one "
            "of them another name",
        ],
    ),
    Wrong(
        "a tool with the name of an activity",
        {"tools/look_up.yaml": CHARGED},
        [
            "tools/look_up.yaml:1: the tool name `look_up` is taken by shop.py:9; give one "
            "of them another name",
        ],
    ),
    Wrong(
        "two agents of one name",
        {"agents/a.yaml": MODEL, "agents/b.yaml": MODEL + "name: a\n"},
        [
            "agents/b.yaml:1: the agent name `a` is taken by agents/a.yaml:1; give one of "
            "them another name",
        ],
    ),
    Wrong(
        "a script that is not there",
        {"endpoints.yaml": "m: {provider: script, file: scrpt.yaml}\n"},
        [
            "scrpt.yaml: there is no such file; did you mean `script.yaml`?",
        ],
    ),
    Wrong(
        "a script with a field misspelt",
        {"script.yaml": "- txt: Done.\n"},
        [
            "script.yaml:1: unknown field `txt`; did you mean `text`?",
        ],
    ),
    Wrong(
        "an agent with the name of the delegate without one",
        {"agents/anonymous.yaml": MODEL},
        [
            "agents/anonymous.yaml:1: a delegate `anonymous` is none of the catalog's agents; "
            "give it another name",
        ],
    ),
    Wrong(
        "a delegate that is in a folder of another name",
        {"agent/b.yaml": MODEL, "tools/t.yaml": "_delegate: b\n"},
        [
            "tools/t.yaml:1: `_delegate`: there is no agent `b`; known: `anonymous`",
        ],
    ),
]
