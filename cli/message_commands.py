"""`holdfast send`, `close` and `cancel`: what is said to a run under way."""

import asyncio
import sys

from temporalio.exceptions import ApplicationError

from holdfast.client.command_errors import DONE, RUN_FAILED, CommandError, wrong_command
from holdfast.client.connection import connect
from holdfast.client.run_handle import RunHandle
from holdfast.runtime.text_safety import as_text, clean, holdfast_command
from holdfast.schemas import names


async def send(*, run: str, text: str, steer: bool) -> int:
    """Say something to a run. A conversation's answer is printed; with `steer`, the message enters
    the context of any run before its next request.

    Raises:
        CommandError: there is no such run, or it is no conversation.
    """
    remote = RunHandle(await connect(), run, listens=True)
    await remote.look()
    message = {"role": "user", "content": text}
    if steer:
        await remote.signal(names.MESSAGE, {**message, "delivery": "steer"})
        print(f"The model reads it at its next turn. See {holdfast_command('watch', run)}")
        return DONE
    print(as_text(await _answer(remote, message)))
    return DONE


async def close(*, run: str) -> int:
    """End a conversation; raises as `send` does."""
    remote = RunHandle(await connect(), run, listens=True)
    await remote.look()
    await remote.signal(names.CLOSE)
    print(f"{clean(run)} ends when its turn is over.")
    return DONE


async def cancel(*, run: str) -> int:
    """Ask a run to end; raises as `send` does."""
    remote = RunHandle(await connect(), run)
    look = await remote.look()
    if look.closed:
        print(f"{clean(run)} has ended already.")
        return DONE
    await remote.cancel()
    print(f"{clean(run)} was asked to end. See {holdfast_command('watch', run)}")
    return DONE


async def _answer(remote: RunHandle, message: dict[str, str]) -> object:
    try:
        return await remote.send(message)
    except ApplicationError as refusal:
        if refusal.type == names.NOT_A_CONVERSATION:
            again = holdfast_command("send", remote.id)
            todo = f"say it before the next turn with {again} TEXT --steer"
            raise wrong_command(f"run {remote.id} is no conversation", todo) from refusal
        wrong = f"run {remote.id} gives no answer: {refusal.message}"
        raise CommandError(
            wrong, f"see {holdfast_command('show', remote.id)}", RUN_FAILED
        ) from refusal
    except asyncio.CancelledError:
        back = holdfast_command("watch", remote.id)
        print(f"\nThe message is with the run. To see the answer: {back}", file=sys.stderr)
        raise
