"""From a proposed call to its one result: checks, dependencies, approval, completion."""
