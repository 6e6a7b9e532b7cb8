"""The providers of models: a module or folder with a `ProviderFormat` each, and what they share.

`base` is the interface; `transport` makes the requests; `answer` reads, collects and bounds an
answer; `contents` and `message_list` encode messages; `parameter_fallback`,
`context_window`, `context_overflow` and `model_errors` handle what servers reject.
"""
