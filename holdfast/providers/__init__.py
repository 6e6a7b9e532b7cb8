"""The providers of models: one folder with a `ProviderFormat` each, and what they share.

`base` is the interface; `transport` makes the requests; `streamed_answer` and `answer_reader`
collect and bound an answer; `content` and `message_list` encode messages; `parameter_fallback`,
`context_window`, `context_overflow` and `model_errors` handle what servers reject.
"""
