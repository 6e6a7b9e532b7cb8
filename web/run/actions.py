"""What a person does to a run from its page: say something, close a conversation, cancel."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from holdfast.client.command_errors import CommandError, HasEndedError
from holdfast.client.run_handle import RunHandle
from holdfast.runtime.text_safety import clean
from holdfast.schemas import names
from holdfast.web.http.request_body import read_form
from holdfast.web.pages import address, page
from holdfast.web.services import Services

# What came of it, by the word that stands in the address of the page that says so.
SAID: Final = {
    "steer": "Sent: the model reads it before its next step.",
    "followUp": "Sent: the model reads it when it would end, and goes on.",
    "message": "Sent: the answer appears below.",
    "closed": "Closed: it ends when its turn is over.",
    "cancelled": "It was asked to end. What is under way is given up; where no worker is there, it"
    " ends as soon as one is.",
    "over": "It had ended already: nothing was done.",
}
_EMPTY: Final = "Nothing was sent: write what you want to say first."
_ENDED: Final = "Nothing was sent: the run has ended. To go on, start a new run."
_DELIVERIES: Final = ("steer", "followUp")


@dataclass(frozen=True)
class Acting:
    """The pages by which something is done to a run."""

    parts: Services

    async def message(self, request: Request) -> Response:
        """Say something to a run; what was written is kept where that cannot be done."""
        form, run = await read_form(request), self._run(request, listens=True)
        text = str(form.get("text") or "").replace("\r\n", "\n")
        how = str(form.get("delivery"))
        delivery = how if how in _DELIVERIES else "steer"
        try:
            wrong = "" if text.strip() else _EMPTY
            if not wrong and (await run.observe()).closed:
                wrong = _ENDED
            if not wrong:
                said = {"role": "user", "content": text, "delivery": delivery}
                await run.signal(names.MESSAGE, said)
        except CommandError as error:
            wrong = f"Nothing was sent: {clean(str(error))}."
        if wrong:
            kept = {"run": run.id, "text": text, "delivery": delivery, "wrong": wrong}
            return page(request, "run-message.html", 409, **kept)
        return _back(run, "message" if how == "message" else delivery)

    async def close(self, request: Request) -> Response:
        """Have a conversation end after its last answer."""
        await read_form(request)
        run = self._run(request, listens=True)
        return await _done(run, partial(run.signal, names.CLOSE), "closed")

    async def before_cancel(self, request: Request) -> Response:
        """Ask once more."""
        run = self._run(request)
        if (await run.observe()).closed:
            return _back(run, "over")
        return page(request, "run-cancel.html", run=run.id)

    async def cancel(self, request: Request) -> Response:
        """Have a run end."""
        await read_form(request)
        run = self._run(request)
        return await _done(run, run.cancel, "cancelled")

    def _run(self, request: Request, *, listens: bool = False) -> RunHandle:
        run_id: str = request.path_params["run"]
        return RunHandle(self.parts.client, run_id, listens=listens)


async def _done(run: RunHandle, act: Callable[[], Awaitable[None]], said: str) -> Response:
    """Do what a run takes note of as long as it has not ended, and say so."""
    try:
        if (await run.observe()).closed:
            raise HasEndedError(run.id)
        await act()
    except HasEndedError:
        return _back(run, "over")
    return _back(run, said)


def _back(run: RunHandle, said: str) -> Response:
    return RedirectResponse(f"{address('run', run.id)}?said={said}#now", 303)
