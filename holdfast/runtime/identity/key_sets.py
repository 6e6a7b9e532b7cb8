"""Key sets in use: public keys from a file or an address, kept current while the worker runs.

A changed file, of keys or of sets, is read again at the next token, so that keys are rotated
without a restart. The set at an address is fetched again when it is old, and when no key in it has
signed a token, at most once every few seconds. While a set cannot be read again, its last valid
keys are used for a bounded time.

`--keys` names an address, a file with keys, or `keys.yaml`. Everything is checked when the worker
starts; each problem has its file, line and fix. An address is requested only when a token arrives,
so that a worker starts while its provider is down.
"""

import asyncio
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic

import httpx

from holdfast.runtime.addresses import AddressError, display_address, parse_secure_address
from holdfast.runtime.identity.public_keys import PublicKey, is_pem, parse_key_set, parse_pem_keys
from holdfast.runtime.settings_files.file_problems import FileProblem, LoadError, UnreadableError
from holdfast.runtime.settings_files.json_and_yaml import read_json
from holdfast.runtime.settings_files.source import Source, file_stamp, read_source, read_text
from holdfast.schemas.settings.keys import SUB, KeySet, KeySets
from holdfast.validation.problems import ValueProblem
from holdfast.validation.text_safety import ISSUER_MARK

MAX_SET_BYTES = 256 * 1024
# Far less than the time limit for checking a token, so that there is time to try again.
MAX_FETCH_SECONDS = 5
# The limit applies however many tokens name unknown keys.
BETWEEN_FETCHES_SECONDS = 10

OPTION, PRINCIPAL_TOKENS = "--keys", "--principal-tokens"
# The name of the only set if the settings give it none.
UNNAMED = "keys"

logger = logging.getLogger("holdfast")


class KeysUnavailableError(Exception):
    """A key set that cannot be read now."""


class LiveKeySet(ABC):
    """The current keys of one set; `settings` are the claims that its tokens must have."""

    def __init__(self, name: str, settings: KeySet) -> None:
        self.name, self.settings = name, settings
        self._keys: tuple[PublicKey, ...] = ()
        self._good_at = -math.inf
        self._problem = ""
        self._renewing = asyncio.Lock()

    async def current(
        self, key_id: str | None, *, is_lacking: bool = False
    ) -> tuple[PublicKey, ...]:
        """Return the keys, including the one of this id if the set has it.

        If a token's key `is_lacking`, also where its id is known, they are read again.

        Raises:
            KeysUnavailableError: the keys cannot be read now.
        """
        is_lacking |= key_id is not None and all(key.id != key_id for key in self._keys)
        # A token whose key is present does not wait for a renewal that another token requires.
        if is_lacking or not self._keys or not self._renewing.locked():
            async with self._renewing:
                try:
                    keys = await self._renewed(is_lacking)
                except LoadError as error:
                    if str(error) != self._problem:
                        logger.warning("keys `%s` cannot be read: %s", self.name, error)
                    self._problem = str(error)
                    keys = None
                if keys is not None:
                    if self._problem:
                        logger.info("keys `%s` can be read again", self.name)
                    self._keys, self._good_at, self._problem = keys, monotonic(), ""
        if monotonic() - self._good_at > self.settings.keep.total_seconds():
            raise KeysUnavailableError(self.name)
        return self._keys

    @abstractmethod
    async def _renewed(self, is_lacking: bool) -> tuple[PublicKey, ...] | None:
        """Read the keys again if they may have changed, or if a token's key `is_lacking`.

        Raises:
            LoadError: the keys cannot be read.
        """


class FileKeySet(LiveKeySet):
    """A key set from a file, which is read at once: a problem in it stops the worker at start."""

    def __init__(self, name: str, settings: KeySet, file: Path) -> None:
        """Read the file.

        Raises:
            LoadError: the file holds a value that is not a supported public key.
        """
        super().__init__(name, settings)
        # Absolute: a running tool may change the working folder.
        self._file = file.absolute()
        self._seen = file_stamp(self._file)
        self._keys, self._good_at = read_key_file(file), monotonic()

    async def _renewed(self, is_lacking: bool) -> tuple[PublicKey, ...] | None:
        now = await asyncio.to_thread(file_stamp, self._file)
        if now == self._seen:
            return None if self._problem else self._keys
        # Taken before reading: a change during the reading is a later change.
        self._seen = now
        return await asyncio.to_thread(read_key_file, self._file)


class UrlKeySet(LiveKeySet):
    """A key set from an address, which is requested when a token arrives."""

    def __init__(
        self, name: str, settings: KeySet, url: httpx.URL, http: httpx.AsyncClient
    ) -> None:
        super().__init__(name, settings)
        self._url, self._http = url, http
        self._asked_at = -math.inf

    async def _renewed(self, is_lacking: bool) -> tuple[PublicKey, ...] | None:
        now = monotonic()
        if now - self._asked_at < BETWEEN_FETCHES_SECONDS:
            return None
        lasting = min(self.settings.refresh, self.settings.keep).total_seconds()
        if not is_lacking and now - self._good_at <= lasting:
            return None
        self._asked_at = now
        where = display_address(self._url)
        try:
            value, lines = read_json(await self._fetch())
        except UnreadableError as error:
            raise LoadError([error.in_file(where)]) from None
        return parse_key_set(Source(where, value, lines), skip_unusable=True)

    async def _fetch(self) -> str:
        # The size of a compressed answer is unknown before it is read.
        headers = {"accept": "application/jwk-set+json, application/json"}
        headers["accept-encoding"] = "identity"
        request = self._http.stream(
            "GET", self._url, headers=headers, timeout=MAX_FETCH_SECONDS, follow_redirects=False
        )
        try:
            async with asyncio.timeout(MAX_FETCH_SECONDS), request as response:
                if response.status_code != httpx.codes.OK:
                    moved = "; redirects are not followed" if response.is_redirect else ""
                    raise self._error(f"it answered {response.status_code}{moved}")
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise self._error(
                        "its answer is compressed, although the request does not accept that"
                    )
                read = bytearray()
                async for chunk in response.aiter_raw():
                    read += chunk
                    if len(read) > MAX_SET_BYTES:
                        raise self._error(f"its answer has more than {MAX_SET_BYTES} bytes")
            return read.decode()
        except TimeoutError:
            raise self._error(f"it took more than {MAX_FETCH_SECONDS} s") from None
        except httpx.HTTPError as error:
            message = str(error) or type(error).__name__
            raise self._error(f"it cannot be reached: {message}") from None
        except UnicodeDecodeError:
            raise self._error("its answer is not UTF-8") from None

    def _error(self, reason: str) -> LoadError:
        return LoadError([FileProblem(display_address(self._url), None, reason, "check the `url`")])


class FileKeySets(list[LiveKeySet]):
    """The key sets that a file lists, which is read again once it has changed.

    A set with the same settings keeps its keys. If the file cannot be read, the sets stay as they
    are.
    """

    def __init__(self, file: Path, load: Callable[[Path], Sequence[LiveKeySet]]) -> None:
        """Load the sets; raises as `load` does."""
        # Absolute: a running tool may change the working folder.
        self._file, self._load, self._renewing = file.absolute(), load, asyncio.Lock()
        self._seen = file_stamp(self._file)
        super().__init__(load(file))

    async def renew(self) -> None:
        """Read the file again if it may have changed."""
        async with self._renewing:
            now = await asyncio.to_thread(file_stamp, self._file)
            if now == self._seen:
                return
            # Taken before reading: a change during the reading is a later change.
            self._seen = now
            try:
                loaded = await asyncio.to_thread(self._load, self._file)
            except LoadError as error:
                logger.warning("the key sets cannot be read again and stay as they are: %s", error)
                return
            known = {each.name: each for each in self}
            kept = (known.get(each.name, each) for each in loaded)
            pairs = zip(kept, loaded, strict=True)
            self[:] = [old if old.settings == new.settings else new for old, new in pairs]


def read_key_file(file: Path) -> tuple[PublicKey, ...]:
    """Read a JWK set or PEM file in which every key must be usable.

    Raises:
        LoadError: the file is neither, or holds a value that is not a supported public key.
    """
    found = _read_file(file)
    return parse_key_set(found) if isinstance(found, Source) else found


def _read_file(file: Path) -> tuple[PublicKey, ...] | Source:
    """Return the keys of a file in PEM, and of any other the value."""
    try:
        text = read_text(file)
        return parse_pem_keys(text) if is_pem(text) else read_source(file)
    except UnreadableError as error:
        raise LoadError([error.in_file(file)]) from None


def load_key_sets(
    place: str | None,
    http: httpx.AsyncClient,
    *,
    for_principals: bool = False,
    home: str | None = None,
) -> Sequence[LiveKeySet]:
    """Load the key sets at `place`; if principals need one, one must be for principals.

    A name belongs to its issuer: subjects of another one than `home`, by default the first that a
    set has, are named with their issuer, unless `subject` names them.

    Raises:
        LoadError: a key set does not load, or none is for principals.
    """
    sets: Sequence[LiveKeySet] = []
    if place is not None and place.startswith(("http://", "https://")):
        sets = [_from_url(UNNAMED, KeySet(url=place), None, http)]
    elif place is not None:
        sets = FileKeySets(Path(place), partial(_named, http=http, home=home))
    if for_principals and not any("principals" in keys.settings.for_ for keys in sets):
        reason = "there are no keys to check them with"
        fix = "name some with `--keys`, of which a set is for `principals`"
        raise LoadError([FileProblem(PRINCIPAL_TOKENS, None, reason, fix)])
    return sets


def issuer_warnings(sets: Sequence[LiveKeySet]) -> list[FileProblem]:
    """Return one warning if people of several issuers may have the same `sub`."""
    mark = f"{SUB}{ISSUER_MARK}"
    others = [each.name for each in sets if (each.settings.subject or "").startswith(mark)]
    if not others:
        return []
    reason = (
        f"people of {', '.join(others)} are named `SUB @ ISSUER`, and are one person with the same"
        " SUB of the first issuer in `notBy` and `quorum`"
    )
    fix = f'if they are others, write `subject: "{SUB}@…"` there; if not, "{SUB}"'
    return [FileProblem(OPTION, None, reason, fix)]


def _named(file: Path, http: httpx.AsyncClient, home: str | None) -> Sequence[LiveKeySet]:
    """Load the sets of a file, and name the subjects of other issuers than `home`."""
    sets = _load(file, http)
    home = home or next((each.settings.issuer for each in sets if each.settings.issuer), "")
    for each in sets:
        own = each.settings
        if own.subject is None and own.issuer and own.issuer.rstrip("/") != home.rstrip("/"):
            named = f"{SUB}{ISSUER_MARK}{own.issuer}"
            each.settings = own.model_copy(update={"subject": named})
    return sets


def _load(file: Path, http: httpx.AsyncClient) -> Sequence[LiveKeySet]:
    source = _read_file(file)
    value = source.value if isinstance(source, Source) and isinstance(source.value, dict) else {}
    if not isinstance(source, Source) or isinstance(value.get("keys"), list):
        return [FileKeySet(UNNAMED, KeySet(file=str(file)), file)]
    named = {name: each for name, each in value.items() if name != "$schema"}
    if not named or isinstance(value.get("file", value.get("url")), str):
        fix = "write each under a name of your own, `NAME: {file: …}`"
        raise LoadError([source.problem(ValueProblem((), "key sets are listed by name", fix))])
    sets: list[LiveKeySet] = []
    problems: list[FileProblem] = []
    for name, settings in replace(source, value=named).parse_as(KeySets).root.items():
        try:
            if settings.file is None:
                sets.append(_from_url(name, settings, source, http))
            else:
                sets.append(_from_file(name, settings, settings.file, source))
        except LoadError as error:
            problems += error.problems
    if problems:
        raise LoadError(problems)
    return sets


def _from_file(name: str, settings: KeySet, said: str, source: Source) -> LiveKeySet:
    file = Path(source.file).parent / said
    if is_pem(said):
        # Not shown: it may be a private key.
        reason, fix = "this is a key", "put it in a file, and name that here"
    elif not file.is_file():
        reason = f"there is no file `{file}`"
        fix = "write its path as seen from the folder of this file"
    else:
        return FileKeySet(name, settings, file)
    raise LoadError([source.problem(ValueProblem((name, "file"), reason, fix))])


def _from_url(
    name: str, settings: KeySet, source: Source | None, http: httpx.AsyncClient
) -> LiveKeySet:
    """Return the set that the address serves; without a source, the option itself names it."""
    try:
        url = parse_secure_address(settings.url or "")
    except AddressError as error:
        fault = ValueProblem((name, "url"), error.reason, error.fix)
        problem = FileProblem(OPTION, None, error.reason, error.fix)
        raise LoadError([problem if source is None else source.problem(fault)]) from None
    return UrlKeySet(name, settings, url, http)
