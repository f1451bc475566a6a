"""The codec of the text door's commands and responses, specified in docs/protocols/text.md. No I/O."""
