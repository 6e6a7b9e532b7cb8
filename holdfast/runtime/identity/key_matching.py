"""Find the key that has signed a token, and check the conditions of its key set.

    size ─► form ─► header ─► keys ─► signature ─► dates, issuer, audience ─► claims

Anyone can send a token, so nothing in it chooses how it is checked: the algorithm is that of the
key, the keys are those of the settings, and no key or address in a token is used. A message names
the problem and the fix in one sentence, and repeats nothing of the token.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import jwt
from jwt import exceptions

from holdfast.runtime.identity.key_sets import FileKeySets, KeysUnavailableError, LiveKeySet
from holdfast.runtime.identity.public_keys import PublicKey
from holdfast.runtime.identity.tokens import InvalidTokenError, SignedToken
from holdfast.schemas.settings.keys import AUDIENCES, SUB, KeySet, Use
from holdfast.validation.text_safety import is_same_person

# Of a token that does not name its key.
MAX_KEYS_TRIED = 100

_WHY: dict[type[exceptions.PyJWTError], str] = {
    exceptions.ExpiredSignatureError: "the token has expired: sign a new one",
    exceptions.ImmatureSignatureError: "the token is not valid yet (`nbf` or `iat` is in the"
    " future): send it later, or set the clock of the signer",
    exceptions.InvalidIssuerError: "the token has another issuer (`iss`) than that of its key",
}


async def matching_key_set(
    token: SignedToken,
    sets: Sequence[LiveKeySet],
    use: Use,
    audience: str | None = None,
    age: timedelta = timedelta(),
) -> KeySet:
    """Return the settings of the key that signed this token, which meets all of them.

    The token is for the set's audience, by default for `audience`, or else for that of its use. It
    was sent before this `age`: its dates are compared with that time.

    Raises:
        InvalidTokenError: it is rejected.
        KeysUnavailableError: it may be valid, but not all keys can be read now.
    """
    if isinstance(sets, FileKeySets):
        await sets.renew()
    fitting = [keys for keys in sets if use in keys.settings.for_]
    if not fitting:
        raise InvalidTokenError(
            f"this worker has no keys to check {use} with: see its option `--keys`"
        )
    wanted = audience or AUDIENCES[use]
    found: list[tuple[PublicKey, KeySet]] = []
    missing: list[KeysUnavailableError] = []
    # A rotated key may have no id, or that of the key before: the keys are read again once.
    for is_lacking in (False, True):
        tried, found, missing = found, [], []
        for keys in fitting:
            try:
                current = await keys.current(token.key_id, is_lacking=is_lacking)
                found += [(key, keys.settings) for key in current]
            except KeysUnavailableError as error:
                missing.append(error)
        if found != tried and (signed := _signing_set(token, found, wanted, age)) is not None:
            return signed
    raise [*missing, _unknown(token, [key for key, _ in found])][0]


def _signing_set(
    token: SignedToken, found: Sequence[tuple[PublicKey, KeySet]], audience: str, age: timedelta
) -> KeySet | None:
    # The token's algorithm and id; a key without an id may always be the token's.
    candidates = [
        (key, settings)
        for key, settings in found
        if key.algorithm == token.algorithm and (key.id is None or token.key_id in (None, key.id))
    ]
    if len(candidates) > MAX_KEYS_TRIED:
        raise InvalidTokenError(
            f"more than {MAX_KEYS_TRIED} keys may be the token's: name it with a `kid`"
        )
    refusals: list[InvalidTokenError] = []
    for key, settings in candidates:
        try:
            if _is_signed(token, key, settings, settings.audience or audience, age):
                return settings
        except InvalidTokenError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]
    return None


def _is_signed(
    token: SignedToken, key: PublicKey, settings: KeySet, audience: str, age: timedelta
) -> bool:
    try:
        jwt.decode(
            token.text,
            key.public,
            # The key's own, whatever the token's header has.
            algorithms=[key.algorithm],
            audience=audience,
            issuer=settings.issuer,
            leeway=settings.leeway + age,
            options={"require": ["exp"] if settings.subject is None else ["exp", "sub"]},
        )
    except exceptions.InvalidSignatureError:
        return False
    except exceptions.InvalidAudienceError:
        raise InvalidTokenError(
            f"the token is for another audience (`aud`): sign one for `{audience}`"
        ) from None
    except exceptions.MissingRequiredClaimError as error:
        raise InvalidTokenError(f"the token lacks `{error.claim}`: sign one with it") from None
    except exceptions.PyJWTError as error:
        raise InvalidTokenError(_WHY.get(type(error), "the token cannot be parsed")) from None
    latest = (datetime.now(UTC) - age + settings.leeway).timestamp()
    if age and any(token.claims.get(claim, 0) > latest for claim in ("nbf", "iat")):
        raise InvalidTokenError(_WHY[exceptions.ImmatureSignatureError])
    if not {*AUDIENCES.values()}.difference([audience]).isdisjoint(token.audiences):
        raise InvalidTokenError("the token's `aud` lists several uses: sign one for each")
    own = settings.subject
    if own is not None and SUB not in own and not is_same_person(token.claims["sub"], own):
        raise InvalidTokenError("the token's key does not belong to its subject (`sub`)")
    return True


def _unknown(token: SignedToken, keys: Sequence[PublicKey]) -> InvalidTokenError:
    """Return why no key of the worker has signed the token."""
    named = [key for key in keys if token.key_id in (None, key.id)]
    if not named and all(key.id is not None for key in keys):
        return InvalidTokenError(
            "this worker does not have the token's key (`kid`): sign with one of the worker's keys"
        )
    if named and all(key.algorithm != token.algorithm for key in named):
        return InvalidTokenError(
            "the token's `alg` is not that of its key: sign with the key's own"
        )
    return InvalidTokenError(
        "the token's signature is wrong: it was changed, or signed with another key"
    )


def check_groups(groups: Sequence[str], allowed: Sequence[str] | None) -> None:
    """Raise `InvalidTokenError` unless the key signs for all of these groups."""
    if allowed is not None and not set(groups) <= set(allowed):
        raise InvalidTokenError(
            "the token's key does not sign for one of its `groups`: leave that out"
        )
