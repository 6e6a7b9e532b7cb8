"""The shared parts of the inbox, the HTTP API and the codec endpoint.

They are request bodies, origins, errors and streams.
"""
