"""Request bodies, origins, errors and streams of the inbox, the API and the codec endpoint."""
