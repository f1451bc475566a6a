"""The JSON door: frames of JSON objects, for clients of thirty lines."""
