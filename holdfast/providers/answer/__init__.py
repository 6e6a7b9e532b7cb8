"""Reading one answer of a model, in any format, out of its stream."""
