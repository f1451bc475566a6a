"""HTTP/1.1 as bytes and values: requests in, answers out, records as JSON, filters. Never touches a socket."""
