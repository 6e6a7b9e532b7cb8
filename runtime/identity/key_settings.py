"""The key sets of a worker, as `--keys` names them: an address, a file with keys, or `keys.yaml`.

Everything is checked when the worker starts; each problem has its file, line and fix. An address
is requested only when a token arrives, so that a worker starts while its provider is down.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import httpx

from holdfast.runtime.addresses import AddressError, is_loopback, parse_address
from holdfast.runtime.identity.key_sets import FileKeySet, LiveKeySet, UrlKeySet
from holdfast.runtime.identity.public_keys import is_pem
from holdfast.runtime.settings_files.file_problems import FileProblem, LoadError, UnreadableError
from holdfast.runtime.settings_files.source import MAX_FILE_BYTES, Source, read_source, read_text
from holdfast.schemas.settings.keys import KeySet, KeySets
from holdfast.validation.problems import ValueProblem

OPTION, PRINCIPAL_TOKENS = "--keys", "--principal-tokens"
# The name of the only set if the settings give it none.
UNNAMED = "keys"


def load_key_sets(
    place: str | None, http: httpx.AsyncClient, *, for_principals: bool = False
) -> Sequence[LiveKeySet]:
    """Load the key sets at `place`; if principals need one, one must be for principals.

    Raises:
        LoadError: a key set does not load, or none is for principals.
    """
    sets = [] if place is None else _load(place, http)
    if for_principals and not any("principals" in keys.settings.for_ for keys in sets):
        reason = "there are no keys to check them with"
        fix = "name some with `--keys`, of which a set is for `principals`"
        raise LoadError([FileProblem(PRINCIPAL_TOKENS, None, reason, fix)])
    return sets


def _load(place: str, http: httpx.AsyncClient) -> Sequence[LiveKeySet]:
    if place.startswith(("http://", "https://")):
        return [_from_url(UNNAMED, KeySet(url=place), None, http)]
    file = Path(place)
    source = _source(file)
    if source is None:
        return [FileKeySet(UNNAMED, KeySet(file=place), file)]
    return _sets(source, file.parent, http)


def _source(file: Path) -> Source | None:
    """Read the file; None if it is itself a set of keys.

    Raises:
        LoadError: the file cannot be read.
    """
    try:
        if is_pem(read_text(file, MAX_FILE_BYTES)):
            return None
        source = read_source(file)
    except UnreadableError as error:
        raise LoadError([error.in_file(file)]) from None
    is_set = isinstance(source.value, dict) and isinstance(source.value.get("keys"), list)
    return None if is_set else source


def _sets(source: Source, folder: Path, http: httpx.AsyncClient) -> list[LiveKeySet]:
    sets, problems = [], []
    for name, settings in _checked(source).items():
        try:
            if settings.file is not None:
                sets.append(_from_file(name, settings, source, folder))
            else:
                sets.append(_from_url(name, settings, source, http))
        except LoadError as error:
            problems += error.problems
    if problems:
        raise LoadError(problems)
    return sets


def _checked(source: Source) -> dict[str, KeySet]:
    value = source.value if isinstance(source.value, dict) else {}
    sets = {name: each for name, each in value.items() if name != "$schema"}
    if not sets or isinstance(value.get("file", value.get("url")), str):
        fix = "write each under a name of your own, `NAME: {file: …}`"
        raise LoadError([source.problem(ValueProblem((), "key sets are listed by name", fix))])
    return replace(source, value=sets).parse_as(KeySets).root


def _from_file(name: str, settings: KeySet, source: Source, folder: Path) -> LiveKeySet:
    said = settings.file or ""
    file = folder / said
    if is_pem(said):
        # Not shown: it may be a private key.
        fault = ValueProblem(
            (name, "file"), "this is a key", "put it in a file, and name that here"
        )
    elif not file.is_file():
        fix = "write its path as seen from the folder of this file"
        fault = ValueProblem((name, "file"), f"there is no file `{file}`", fix)
    else:
        return FileKeySet(name, settings, file)
    raise LoadError([source.problem(fault)])


def _from_url(
    name: str, settings: KeySet, source: Source | None, http: httpx.AsyncClient
) -> LiveKeySet:
    """Return the set that the address serves; without a source, the option itself names it."""
    try:
        url = parse_address(settings.url or "")
        if url.scheme == "http" and not is_loopback(url.host):
            raise AddressError("keys that come over `http` may be anybody's", "write https://…")
    except AddressError as error:
        fault = ValueProblem((name, "url"), error.reason, error.fix)
        problem = FileProblem(OPTION, None, error.reason, error.fix)
        raise LoadError([problem if source is None else source.problem(fault)]) from None
    return UrlKeySet(name, settings, url, http)
