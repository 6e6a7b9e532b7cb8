"""The activity `check_token`: a token's signature, conditions and claims.

The key and its conditions are those of `runtime.identity.key_matching`. A message names the problem
and the fix in one sentence, and repeats nothing of the token.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError
from temporalio import activity
from temporalio.exceptions import ApplicationError

from holdfast.runtime.identity.key_matching import check_groups, matching_key_set
from holdfast.runtime.identity.key_sets import KeysUnavailableError, LiveKeySet
from holdfast.runtime.identity.tokens import (
    InvalidTokenError,
    SignedToken,
    decision_claims,
    principal_claims,
)
from holdfast.schemas import names
from holdfast.schemas.decision import OTHER_QUESTION, TokenCheck
from holdfast.schemas.settings.keys import USES, KeySet


class CheckTokenActivity:
    """Checks tokens with the key sets of one worker."""

    def __init__(self, sets: Sequence[LiveKeySet]) -> None:
        self._sets = sets

    @activity.defn(name=names.CHECK_TOKEN)
    async def check_token(self, check: dict[str, Any]) -> dict[str, Any]:
        """Return the `DecisionClaims` or `PrincipalClaims` of the valid token in a `TokenCheck`.

        Of a `question`, whose `token` is the nonce of an unsigned decision, nothing.

        Raises:
            ApplicationError: of type `invalid_token`, not retryable: the token is rejected; or of
                type `keys_unavailable`, retried: its keys cannot be read now.
        """
        try:
            token_check = TokenCheck.read(check)
            if token_check.purpose == "question":
                if token_check.token != token_check.nonce:
                    raise InvalidTokenError(OTHER_QUESTION)
                return {}
            token = SignedToken.read(token_check.token)
            settings = await matching_key_set(
                token, self._sets, USES[token_check.purpose], age=token_check.age(datetime.now(UTC))
            )
            if token_check.purpose == "principal":
                principal = principal_claims(token, settings.subject, settings.team)
                if token.claims.get("jti") not in token_check.runs:
                    raise InvalidTokenError(
                        "the token is not for this run: sign one with its workflow id as `jti`"
                    )
                return principal
            return _claims_for(token_check, token, settings)
        except ValidationError:
            raise _rejection("this worker does not know how to check such a token") from None
        except InvalidTokenError as error:
            raise _rejection(str(error)) from None
        except KeysUnavailableError as error:
            message = f"the key set `{error}` is not available now: see the worker's log"
            raise ApplicationError(message, type=names.KEYS_UNAVAILABLE) from None


def _claims_for(check: TokenCheck, token: SignedToken, settings: KeySet) -> dict[str, Any]:
    claims = decision_claims(token)
    check_groups(claims.groups, settings.groups)
    if claims.nonce != check.nonce:
        raise InvalidTokenError(
            "the token is for another approval, or another execution of the run (`nonce`):"
            " read it again, and sign a new one"
        )
    if claims.iat is not None and check.since is not None:
        latest = claims.iat + settings.leeway.total_seconds()
        if latest < datetime.fromisoformat(check.since).timestamp():
            raise InvalidTokenError(
                "the token is older than the approval (`iat`): read it again, and sign a new one"
            )
    return claims.to_json()


def _rejection(message: str) -> ApplicationError:
    return ApplicationError(message, type=names.INVALID_TOKEN, non_retryable=True)
