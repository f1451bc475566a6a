"""Pure code: records, log and state machines. Never touches a clock, a socket, a file or a thread by itself."""
