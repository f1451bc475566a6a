"""The thought: records, log and machines. Never touches a clock, a socket, a file or a thread by itself."""
