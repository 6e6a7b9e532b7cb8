"""Key sets that do not load, and files in which there are no public keys."""

from collections.abc import Sequence

from tests.contract.wrong_inputs.loading import ARGUMENTS, Wrong

PEM = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\n-----END PRIVATE KEY-----\n"


def _row(
    name: str, file: str, text: str, *says: str, editor: bool | None, options: Sequence[str] = ()
) -> Wrong:
    lines = [f"{file}:{line}" for line in says]
    return Wrong(name, {file: text}, lines, editor, (*ARGUMENTS, "--keys", file, *options))


def keys(name: str, text: str, *says: str, editor: bool = True) -> Wrong:
    """The file that names key sets; the lines begin behind its name."""
    return _row(name, "keys.yaml", text, *says, editor=editor)


def key_file(name: str, file: str, text: str, *says: str) -> Wrong:
    """A file with keys."""
    return _row(name, file, text, *says, editor=None)


KEYS = [
    keys(
        "a key set without keys",
        "people: {issuer: acme}\n",
        "1: `people`: a key set needs `file` or `url`; add one of them",
    ),
    keys(
        "a key set in two places",
        "people: {file: a.json, url: 'https://id.example/jwks.json'}\n",
        "1: `people`: `file` and `url` stand beside each other; keep one of them",
    ),
    keys(
        "a key set from anybody on the way",
        "people:\n  url: http://id.example/jwks.json\n",
        "2: `people.url`: keys that come over `http` may be anybody's; write https://…",
        editor=False,
    ),
    keys(
        "a key set for what does not exist",
        "people: {url: 'https://id.example/jwks.json', for: [approvals]}\n",
        "1: `people.for[0]`: `approvals` does not fit; write `decisions` or `principals`",
    ),
    keys(
        "a field of a key set misspelt",
        "people: {url: 'https://id.example/jwks.json', audiance: holdfast}\n",
        "1: unknown field `audiance`; did you mean `audience`?",
    ),
    keys(
        "a leeway for clocks that nobody looks at",
        "people:\n  url: https://id.example/jwks.json\n  leeway: 1h\n",
        "3: `people.leeway`: clocks differ by less; write at most 10m",
        editor=False,
    ),
]
KEY_FILES = [
    key_file(
        "a key set whose file is not there",
        "keys.yaml",
        "people:\n  file: people.json\n",
        "2: `people.file`: there is no file `people.json`; write its path as seen from the folder "
        "of this file",
    ),
    key_file(
        "a private key",
        "key.pem",
        PEM,
        "1: this is a private key; write its public key here, and treat it as known: make a new "
        "one",
    ),
    key_file(
        "a shared secret",
        "keys.json",
        '{"keys": [\n  {"kty": "oct", "k": "c2VjcmV0"}\n]}\n',
        "2: `keys[0]`: this is a shared secret (kty `oct`); take it out, and have whoever signs "
        "use a key pair: Ed25519 or RSA",
    ),
    Wrong(
        "tokens wanted of everybody, and nothing to check them with",
        {},
        [
            "--principal-tokens: there are no keys to check them with; name some with `--keys`, of "
            "which a set is for `principals`",
        ],
        arguments=[*ARGUMENTS, "--principal-tokens"],
    ),
    Wrong(
        "keys that are not there",
        {},
        ["keys.yml: there is no such file; check the path"],
        arguments=["--keys", "keys.yml"],
    ),
]
