"""The rows of the race, one module for each kind of load. Never decides who takes part."""
