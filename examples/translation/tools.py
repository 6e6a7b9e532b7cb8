"""What the translator can do: a plain activity, which knows of no run and of no other language."""

from pydantic import BaseModel, Field
from temporalio import activity


class CheckTerms(BaseModel):
    source: str
    draft: str
    glossary: dict[str, str] = Field(description="Each term, and what it has to be called.")


@activity.defn
async def check_terms(arguments: CheckTerms) -> dict[str, str]:
    """Find the terms of the source that the draft does not call as the glossary has them."""
    source, draft = arguments.source.lower(), arguments.draft.lower()
    return {
        term: name
        for term, name in arguments.glossary.items()
        if term.lower() in source and name.lower() not in draft
    }
