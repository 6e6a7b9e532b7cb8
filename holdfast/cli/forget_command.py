"""`holdfast forget`: delete what is kept of a person."""

from holdfast.cli.parser import Commands
from holdfast.client.connection import connect
from holdfast.client.errors import DONE
from holdfast.client.personal_data import forget_principal
from holdfast.runtime.command_line import read_name
from holdfast.runtime.text_safety import clean, holdfast_command


def add_parser(commands: Commands) -> None:
    """Add `forget`."""
    text = "delete what agents keep of a person"
    about = "It lists every memory of the namespace, and asks nothing before it deletes."
    parser = commands.add_parser("forget", help=text, description=about)
    text = "the id of the principal whose memories are deleted"
    parser.add_argument("principal", metavar="PRINCIPAL", type=read_name, help=text)
    text = "delete the principal's finished runs, too, with the record of their approvals"
    parser.add_argument("--runs", action="store_true", help=text)
    parser.set_defaults(command=forget)


async def forget(*, principal: str, runs: bool) -> int:
    """Delete the memories of a principal, and its finished runs if `runs`."""
    who = clean(principal)
    memories, ended = await forget_principal(await connect(), principal, runs=runs)
    print(f"Memories of {who} deleted: {memories}.")
    if runs:
        print(f"Finished runs of {who} deleted: {ended}.")
    elif ended:
        print(f"Finished runs of {who} kept until the namespace's retention ends: {ended}.")
        print(f"To delete them: {holdfast_command('forget', principal, '--runs')}")
    return DONE
