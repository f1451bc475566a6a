"""How to measure a broker from outside: frames made beforehand, a bare socket, the machine described. Never judges."""
