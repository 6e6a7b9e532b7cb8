"""`holdfast schedules`: Temporal's schedules, as the files of a catalog state them."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from holdfast.catalog.catalog_files import SCHEDULES
from holdfast.cli import option_values
from holdfast.cli.parser import NAME, Parsers
from holdfast.cli.screens.console import print_table
from holdfast.cli.server_commands import SETTINGS_VARIABLE, add_catalog, load_catalog
from holdfast.client.connection import connect
from holdfast.client.errors import DONE, NO_SUCH, HoldfastError, explain_settings, wrong_command
from holdfast.client.schedules import ScheduleSets
from holdfast.runtime.command_line import read_name
from holdfast.runtime.text_safety import as_json, clean, format_date
from holdfast.schemas.settings.schedules import ScheduleDefinition

_ACTIONS = {
    "pause": "start nothing until it is unpaused",
    "unpause": "start runs again",
    "trigger": "start a run now, as its overlap policy allows",
    "delete": "delete it; its runs continue",
}


def add_options(parsers: Parsers) -> None:
    """Add the options of `schedules apply`, `list`, and those on one schedule."""
    actions = parsers["schedules"].add_subparsers(metavar="ACTION", required=True)
    text = "make and update the schedules of a catalog's schedules/, paused or not as they are"
    parser = actions.add_parser("apply", help=text, description=f"{text.capitalize()}.")
    add_catalog(parser)
    add = parser.add_argument
    add("--task-queue", metavar="NAME", help="of the worker that runs the agents")
    text = "delete the schedules of this set that have no file, after printing them"
    add("--prune", action="store_true", help=text)
    text = "the set that these schedules are of (default: QUEUE/FOLDER)"
    add("--set", **NAME, dest="owner", help=text)
    text = f"an inbox's settings, whose permissions apply (default: {SETTINGS_VARIABLE})"
    add("--settings", metavar="FILE", help=text)
    text = "with --settings: your token, as for the inbox: a JWT, @FILE, or -"
    add("--token", metavar="JWT", type=option_values.token, help=text)
    parser.set_defaults(command=apply)
    parser = actions.add_parser("list", help="list the schedules that `apply` has made")
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.set_defaults(command=list_command)
    for name, text in _ACTIONS.items():
        parser = actions.add_parser(name, help=text, description=f"{text.capitalize()}.")
        parser.add_argument("schedule", metavar="SCHEDULE", type=read_name)
        parser.set_defaults(command=partial(change, name))


async def apply(
    *,
    prune: bool,
    owner: str | None,
    settings: str | None,
    token: str | None,
    **given: str | Sequence[str] | None,
) -> int:
    """Write the schedules of a folder to Temporal, after all checks."""
    catalog, queue = load_catalog(given)
    if (folder := catalog.definitions.folder) is None:
        raise wrong_command("there are no schedules", "name a folder with them: --catalog DIR")
    settings = settings or os.environ.get(SETTINGS_VARIABLE)
    if settings or token:
        await _check_rights(settings, token, catalog.schedules)
    owner, sets = owner or f"{queue}/{folder.resolve().name}", ScheduleSets(await connect(queue))
    for id in catalog.schedules:
        await sets.find(id, owner)  # one of others: nothing is written
    for id, wanted in catalog.schedules.items():
        print(f"{id}: {await sets.apply(id, wanted, owner)}", flush=True)
    stale = [
        each.id
        for each, of in await sets.list()
        if of == owner and each.id not in catalog.schedules
    ]
    end = "it is deleted next" if prune else "--prune deletes it"
    for id in stale:
        print(f"{clean(id)}: has no file in {folder / SCHEDULES}; {end}", flush=True)
    for id in stale if prune else ():
        if (handle := await sets.find(id, owner)) is not None:  # the list can be behind
            await handle.delete()
        print(f"{clean(id)}: deleted", flush=True)
    return DONE


async def _check_rights(
    settings: str | None, token: str | None, wanted: Mapping[str, ScheduleDefinition]
) -> None:
    """Raise unless the sender of a token may start each of these runs, as at the inbox."""
    # Imported here: the other commands need no HTTP server, and start sooner.
    from holdfast.catalog.endpoints import http_client
    from holdfast.runtime.text_sealer import TextSealer
    from holdfast.web.api.runs import principal_of
    from holdfast.web.auth.permissions import Permissions
    from holdfast.web.auth.sessions import BearerTokens
    from holdfast.web.http.problems import HttpProblem, RefusedRequest
    from holdfast.web.inbox_settings import load_inbox_settings

    if settings is None or token is None:
        wrong = "the permissions of an inbox are for the sender of a token"
        raise wrong_command(wrong, "name both --settings and --token")
    async with http_client() as http:
        with explain_settings("--settings"):
            loaded = load_inbox_settings(Path(settings), os.environ, http)
        what, todo = "--token", "nothing was applied"
        try:
            person, _ = await BearerTokens(TextSealer(), loaded.keys).read(token)
            rules, is_any = loaded.settings.permissions, loaded.settings.programs.principals
            for id, schedule in wanted.items():
                what, principal = f"the schedule {id}", schedule.principal
                own = principal and principal_of(principal, person, any_principal=is_any)
                named = own["id"] if own else None
                if not Permissions(rules).may_start(person, schedule.agent, named):
                    wrong = f"{person.name} may not start runs of {schedule.agent}"
                    raise wrong_command(f"{what}: {wrong} for {named or 'no principal'}", todo)
        except (HttpProblem, RefusedRequest) as refused:
            raise wrong_command(f"{what}: {str(refused).rstrip('.')}", todo) from None


async def list_command(*, json: bool) -> int:
    """List the schedules that `apply` has made: id, set, state, next start and last run."""
    found = list[dict[str, str | None]]()
    for each, owner in await ScheduleSets(await connect()).list():
        starts = each.info.next_action_times if each.info else []
        runs = each.info.recent_actions if each.info else []
        is_paused = each.schedule is not None and each.schedule.state.paused
        found.append(
            {
                "schedule": each.id,
                "set": owner,
                "state": "paused" if is_paused else "active",
                "nextStart": starts[0].isoformat() if starts else None,
                "lastRun": getattr(runs[-1].action, "workflow_id", None) if runs else None,
            }
        )
    if json:
        print(as_json(found))
    elif found:
        rows = ({**row, "nextStart": format_date(row["nextStart"])}.values() for row in found)
        cells = [[clean(each or "-") for each in row] for row in rows]
        print_table(["SCHEDULE", "SET", "STATE", "NEXT START", "LAST RUN"], cells, cut=False)
    else:
        print("There are no schedules that `holdfast schedules apply` made.")
    return DONE


async def change(action: str, *, schedule: str) -> int:
    """Pause, unpause, trigger or delete a schedule that `apply` has made."""
    if (handle := await ScheduleSets(await connect()).find(schedule)) is None:
        todo = "holdfast schedules list shows the schedules"
        raise HoldfastError(f"there is no schedule {schedule}", todo, NO_SUCH)
    note = {"note": f"{action} with `holdfast`"} if action.endswith("pause") else {}
    await getattr(handle, action)(**note)
    how = ": a run starts, if its overlap policy allows one" if action == "trigger" else ""
    print(f"{clean(schedule)} is {action.removesuffix('e')}ed{how}")
    return DONE
