"""What the inbox, the HTTP API and the codec endpoint share: bodies, origins, errors, streams."""
