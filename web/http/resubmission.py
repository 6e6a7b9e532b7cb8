"""What was sent and did not count, kept: it can be sent again, once it is clear by whom.

It is offered only for what a page of the inbox itself has sent (the gate has seen to that), and
shown in full before it is sent.
"""

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from holdfast.runtime.text_safety import clean
from holdfast.web.auth.person import Person
from holdfast.web.auth.return_path import asked_for, sign_in_for
from holdfast.web.http.form_request import FIELD
from holdfast.web.pages import page


def kept_page(request: Request, form: FormData | None, person: Person | None) -> Response:
    """The page that says that nothing was done, and holds what was written.

    For nobody, it is sent again as it was, after signing in; for somebody else than it was given
    to, in their own name.
    """
    fields = _fields(form)
    token = person.form_token if person else "".join(v for name, v in fields if name == FIELD)
    written = [(name, value) for name, value in fields if name != FIELD]
    where = asked_for(request)
    return page(
        request,
        "kept.html",
        403 if person else 401,
        where=where,
        sign_in=sign_in_for(where),
        token=token,
        written=written,
        shown=[(clean(name), clean(value)) for name, value in written if value.strip()],
    )


def _fields(form: FormData | None) -> list[tuple[str, str]]:
    items = [] if form is None else form.multi_items()
    return [(name, value) for name, value in items if isinstance(value, str)]
