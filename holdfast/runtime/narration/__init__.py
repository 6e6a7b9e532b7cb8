"""The one narration of a run: typed log entries in, words for people out.

`phrases` is the vocabulary of every surface, `log_narration` describes each entry of a log, and
`call_summaries` keeps one summary of each call. A surface only draws what they return.
"""
