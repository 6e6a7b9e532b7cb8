"""The examples in Go and Java by their READMEs: their commands, and what is installed for them."""

import asyncio
import hashlib
import re

import pytest
from temporalio.client import Client

from tests.docs.stage import prints
from tests.examples.readme import played
from tests.languages.payments import LANGUAGES, Payments, example_of
from tests.support.backend import Run
from tests.support.command import holdfast


@pytest.mark.parametrize("language", LANGUAGES[1:])
async def test_a_run_pays_by_the_commands_of_the_readme(
    client: Client, language: str, payments: Payments
) -> None:
    await payments.start()
    with played(f"{language}_tool", client) as readme:
        start, decide = readme.commands
        following = asyncio.create_task(holdfast(*start[1:]))
        await Run(client.get_workflow_handle(f"{language}-refund"), client).listed()
        assert (await holdfast(*decide[1:])).code == 0
        said = await following
    assert (said.code, said.err) == (0, "")
    assert prints(readme.prints[1], said.out), said.out
    [payment] = payments.booked()
    assert payment["key"] == f"{language}-refund/t1c1"


@pytest.mark.java
def test_the_classes_that_run_are_those_whose_hashes_are_kept() -> None:
    """Maven checks them from version 3.9 on, and what it builds with as well."""
    example = example_of("java")
    kept = (example / ".mvn/checksums/checksums.sha256").read_text("utf-8").splitlines()
    hashes = {path.rpartition("/")[2]: digest for digest, path in map(str.split, kept)}
    jars = sorted((example / "target/dependency").glob("*.jar"))
    assert jars
    for jar in jars:
        assert hashlib.sha256(jar.read_bytes()).hexdigest() == hashes[jar.name], jar.name
    versions = re.findall(r"<version>(.*)</version>", (example / "pom.xml").read_text("utf-8"))
    assert all(re.fullmatch(r"[\d.]+", version) for version in versions)
