"""Write the page of a workflow in Temporal's UI."""
