"""`holdfast diff`, `evidence`, `verify` and `forget`: the records of runs and people."""

import asyncio
from pathlib import Path
from textwrap import indent
from typing import Final

from holdfast.cli.parser import Parsers, on_run
from holdfast.cli.screens.console import print_table
from holdfast.client.connection import connect
from holdfast.client.errors import DONE, RUN_FAILED, HoldfastError, explain_settings, wrong_command
from holdfast.client.holdfast_client import forget_principal
from holdfast.client.records import diff_text, evidence_file
from holdfast.client.records.evidence import read_evidence
from holdfast.client.records.run_diff import compare, read_recorded_run
from holdfast.client.records.signed_decisions import SignedDecisions
from holdfast.client.signing import load_signer
from holdfast.runtime.command_line import read_name
from holdfast.runtime.text_safety import as_json, clean, holdfast_command, name_in_line, one_line
from holdfast.schemas.settings.keys import AUDIENCES

_TEXT_CHARS: Final = 500


def add_options(parsers: Parsers) -> None:
    """Add the options of `diff`, `forget`, `evidence` and `verify`."""
    parser = on_run(parsers["diff"], diff)
    parser.add_argument("other", metavar="RUN", type=read_name)
    parser.add_argument("--json", action="store_true", help="print a JSON object")

    parser = parsers["forget"]
    about = "It lists every memory of the namespace, and asks nothing before it deletes."
    parser.description = about
    text = "the id of the principal whose memories are deleted"
    parser.add_argument("principal", metavar="PRINCIPAL", type=read_name, help=text)
    text = "delete the principal's finished runs, too, with the record of their approvals"
    parser.add_argument("--runs", action="store_true", help=text)
    parser.set_defaults(command=forget)

    parser = on_run(parsers["evidence"], evidence)
    parser.add_argument("--out", metavar="FILE", required=True, help="the file")
    parser.add_argument("--key", metavar="FILE", help="sign it with this private key (PEM)")
    parser.add_argument("--kid", metavar="ID", help="the id of the key in a key set")

    parser = parsers["verify"]
    text = "a file that `holdfast evidence` wrote"
    parser.add_argument("file", metavar="FILE", help=text)
    text = "the public keys of who may sign it: a JWK set, or PEM"
    parser.add_argument("--keys", metavar="FILE", help=text)
    text = "the `aud` of signed decisions, if the workers require their own (default: %(default)s)"
    parser.add_argument("--audience", default=AUDIENCES["decisions"], help=text)
    parser.set_defaults(command=verify)


async def diff(*, run: str, other: str, json: bool) -> int:
    """Compare two runs; the exit code is 1 if they are not equal, or not known to be."""
    client = await connect()
    first, second = [await read_recorded_run(client.run(each)) for each in (run, other)]
    found = compare(first, second)
    if json:
        print(as_json(found.to_json(), indent=2))
        return DONE if found.equal else RUN_FAILED
    print_table(["", *map(clean, (run, other))], diff_text.fact_rows(found), cut=False)
    turns = [(f"Turn {number}", rows) for number, rows in diff_text.turn_rows(found)]
    end = [diff_text.DiffRow(changes)] if (changes := diff_text.end_changes(found)) else []
    for heading, rows in [*turns, ("End", end)]:
        print(f"\n{heading}{'' if rows else ': equal'}")
        for row in rows:
            if row.words:
                status, name, arguments = row.words
                print(f"  {status}: {name}  {arguments}".rstrip())
            for one in row.differences:
                if {"\n", "→"} & {*one.before, *one.after}:
                    print(f"    {one.place}:")
                    print(indent(one.before, "      - "))
                    print(indent(one.after, "      + "))
                else:
                    print(f"    {one.place}: {one.before} → {one.after}")
    print(f"\n{diff_text.summary(found)}")
    return DONE if found.equal else RUN_FAILED


async def forget(*, principal: str, runs: bool) -> int:
    """Delete the memories of a principal, and its finished runs if `runs`."""
    who = clean(principal)
    memories, ended, files = await forget_principal(await connect(), principal, runs=runs)
    print(f"Memories of {who} deleted: {memories}.")
    if runs:
        print(f"Finished runs of {who} deleted: {ended}. Files deleted from the store: {files}.")
    elif ended:
        print(f"Finished runs of {who} kept until the namespace's retention ends: {ended}.")
        print(f"To delete them: {holdfast_command('forget', principal, '--runs')}")
    return DONE


async def evidence(*, run: str, out: str, key: str | None, kid: str | None) -> int:
    """Write the evidence of a run, signed if there is a key."""
    signer = load_signer(key, kid)
    records = await read_evidence(await connect(), run)
    records[0]["signed"] = signer is not None
    lines, file = evidence_file.write_lines(records, run, signer), Path(out)
    try:
        # Readable for its owner: it holds in plain text what the run has read.
        await asyncio.to_thread(file.touch, 0o600)
        await asyncio.to_thread(file.chmod, 0o600)
        await asyncio.to_thread(file.write_bytes, b"".join(lines))
    except OSError as error:
        wrong = f"{file} cannot be written: {error.strerror}"
        raise wrong_command(wrong, "name another file with --out") from None
    print(f"{out}: {len(records) + 1} lines, {'not ' if signer is None else ''}signed")
    return DONE


async def verify(*, file: str, keys: str | None, audience: str) -> int:
    """Print the decisions in a file of evidence, if it was not changed."""
    # Imported here: no other command reads keys, and they start sooner.
    from holdfast.runtime.identity.key_sets import read_key_file

    with explain_settings("--keys"):
        trusted = () if keys is None else read_key_file(Path(keys))
    try:
        data = await asyncio.to_thread(Path(file).read_bytes)
        header, *records, seal = evidence_file.read_lines(data.splitlines(keepends=True), trusted)
    except OSError as error:
        wrong = f"{file} cannot be read: {error.strerror}"
        raise wrong_command(wrong, "name a file of holdfast evidence") from None
    except evidence_file.BrokenEvidenceError as error:
        raise wrong_command(f"{file}: {error}", "rely on no part of it: get it again") from None
    names = ("run", "agent", "status", "madeAt")
    run, agent, status, made_at = (name_in_line(str(header.get(one)), _TEXT_CHARS) for one in names)
    part = "" if header.get("complete") else ", in part: the rest was deleted before"
    decisions = SignedDecisions(header, seal, trusted, audience)
    first = f"run {run} of {agent}, {status}{part}, as of {made_at}"
    for text in (first, *decisions.lines(records)):
        print(one_line(text, _TEXT_CHARS))
    count = f"{len(records) + 2} lines, unchanged since they were written"
    key = evidence_file.signed_by(seal.get("jws"), trusted, {})
    if key is None:
        lack = (
            "not signed: anyone may have written them" if seal.get("jws") is None else "unchecked"
        )
        todo = "sign with evidence --key, and name who may sign with verify --keys"
        raise HoldfastError(f"{count}, and {lack}", todo, RUN_FAILED)
    if decisions.unproven:
        wrong = f"{count}, and decisions that are NOT PROVEN above: {decisions.unproven}"
        todo = "ask the approvers, and name their keys with verify --keys"
        raise HoldfastError(wrong, todo, RUN_FAILED)
    print(f"{count}, signed with the key {clean(key.id or f'in {keys}')}")
    return DONE
