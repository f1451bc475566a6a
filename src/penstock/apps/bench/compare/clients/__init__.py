"""Scripts for the Python client row: each broker's own client, used as its documentation shows, without tuning."""
