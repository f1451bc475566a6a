"""HTTP/1.1 codec: requests, responses, records as JSON, filters. No I/O."""
