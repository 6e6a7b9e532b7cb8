"""A company's project, as it was before it had agents of Holdfast: work, plugins and encoding."""
