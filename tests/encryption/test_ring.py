"""`encryption.yaml` (§13): keys are named and never in it; a problem is reported with its line."""

from pathlib import Path

import pytest

from holdfast.runtime.encryption.key_ring import AesKey, KeyRing, read_key
from holdfast.runtime.settings_files.file_problems import LoadError
from tests.encryption.keys import NEW, OLD, SECRETS, written

SECRET = written(NEW)


def refused(path: Path, environ: dict[str, str] | None = None) -> list[str]:
    """What is reported of a file that does not load, without the folder's name."""
    with pytest.raises(LoadError) as raised:
        KeyRing.load(path, environ or {})
    said = str(raised.value)
    assert SECRET not in said
    assert SECRETS[NEW].hex() not in said
    return said.replace(f"{path.parent}/", "").splitlines()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "encryption.yaml"


def test_keys_are_had_from_variables_and_from_files_beside_it(path: Path) -> None:
    path.write_text(
        f"$schema: ../schemas/encryption.schema.json\n"
        f"keys:\n- {{id: {NEW}, env: NEW_KEY}}\n- {{id: {OLD}, file: keys/old}}\n"
    )
    (path.parent / "keys").mkdir()
    (path.parent / "keys/old").write_text(f"{SECRETS[OLD].hex().upper()}\n")
    ring = KeyRing.load(path, {"NEW_KEY": SECRET})
    assert (ring.newest.id, repr(ring)) == (NEW, f"KeyRing({[NEW, OLD]})")
    for id in (OLD, NEW):
        found = ring.find(id)
        assert found is not None
        assert found.open(AesKey(id, SECRETS[id]).seal(b"data")) == b"data"
    assert ring.find("another") is None
    assert repr(ring) == f"KeyRing(['{NEW}', '{OLD}'])"
    assert repr(ring.newest) == f"Key('{NEW}')"


@pytest.mark.parametrize(
    "text",
    [SECRET, SECRET.rstrip("="), SECRET.replace("+", "-").replace("/", "_"), SECRETS[NEW].hex()],
)
def test_a_key_is_base64_or_hexadecimal(text: str) -> None:
    assert read_key(f" {text}\n") == SECRETS[NEW]


@pytest.mark.parametrize("text", ["", "a key", SECRET[:-4], f"{SECRET}AAAA", "ä" * 44, "g" * 64])
def test_what_has_another_length_or_other_letters_is_none(text: str) -> None:
    assert read_key(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("keys: []", "encryption.yaml:1: `keys`: the value does not fit; write at least 1"),
        ("{}", "encryption.yaml:1: `keys` is missing; add it"),
        (
            "keys:\n- {id: a}",
            "encryption.yaml:2: `keys[0]`: `env` or `file` is missing; add one of them",
        ),
        (
            "keys:\n- {id: a, env: A, file: a}",
            "encryption.yaml:2: `keys[0]`: `env` and `file` exclude each other; keep one of them",
        ),
        (
            "keys:\n- {id: a, env: A}\n- {id: a, env: A}",
            "encryption.yaml:3: `keys[1].id`: there is a key `a` already; give each key an id of "
            "its own, and never give it to another",
        ),
        (
            "keys: [{id: a, env: B}]",
            "encryption.yaml:1: `keys[0].env`: the variable B is not set; set it to the key",
        ),
        (
            "keys: [{id: a, env: SHORT}]",
            "encryption.yaml:1: `keys[0].env`: what the variable SHORT holds is no key; write 32 "
            "bytes in base64: openssl rand -base64 32",
        ),
        (
            "keys: [{id: a, key: B}]",
            "encryption.yaml:1: unknown field `key`; name the variable (`env`) or the file "
            "(`file`) that holds the key",
        ),
        (
            "keys: [{id: a, file: b}]",
            "encryption.yaml:1: `keys[0].file`: b: there is no such file; check the path",
        ),
        (
            "keys: [{id: a, file: short}]",
            "encryption.yaml:1: `keys[0].file`: what short holds is no key; write 32 bytes in "
            "base64: openssl rand -base64 32",
        ),
    ],
)
def test_a_problem_is_reported_with_its_line_and_what_to_do(
    path: Path, text: str, said: str
) -> None:
    path.write_text(text)
    (path.parent / "short").write_text(SECRET[:-4])
    assert refused(path, {"A": SECRET, "SHORT": SECRET[:-4]}) == [said]


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f"keys: {SECRET}",
        f"keys: [{SECRET}]",
        f"keys: [{{id: a, key: {SECRET}}}]",
        f"keys: [{{id: a, env: {SECRET}}}]",
        f"keys: [{{id: a, env: {SECRETS[NEW].hex()}}}]",
        f"keys: [{{id: a, env: a{SECRETS[NEW].hex()[1:]}}}]",
        f"keys: [{{id: a, file: {SECRET}}}]",
        f"keys: [{{id: {SECRET}, env: A}}]",
        f"keys: [{{id: {SECRETS[NEW].hex()}, env: A}}]",
    ],
)
def test_a_key_in_the_file_is_refused_and_not_repeated(path: Path, text: str) -> None:
    path.write_text(text)
    [said] = refused(path, {"A": SECRET})
    assert SECRETS[NEW].hex()[1:] not in said
    assert said.startswith("encryption.yaml:1: ")


def test_the_key_in_the_place_of_the_file_is_not_repeated(tmp_path: Path) -> None:
    assert refused(Path(SECRETS[NEW].hex())) == [
        "the name of the file: this is a key itself; name the file that lists where the keys are"
    ]


def test_every_missing_key_is_reported(path: Path) -> None:
    path.write_text("keys:\n- {id: a, env: A}\n- {id: b, env: B}\n- {id: a, env: C}\n")
    assert [line.partition("; ")[0] for line in refused(path)] == [
        "encryption.yaml:2: `keys[0].env`: the variable A is not set",
        "encryption.yaml:3: `keys[1].env`: the variable B is not set",
        "encryption.yaml:4: `keys[2].id`: there is a key `a` already",
        "encryption.yaml:4: `keys[2].env`: the variable C is not set",
    ]
