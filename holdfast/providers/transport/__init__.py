"""The exchange with a server over HTTP: address, request, event stream, errors."""
