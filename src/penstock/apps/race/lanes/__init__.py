"""One lane a wire protocol: what a row's load is in that protocol's bytes. Never starts a server."""
