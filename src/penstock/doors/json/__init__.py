"""The JSON door: length-prefixed JSON objects, for minimal clients."""
