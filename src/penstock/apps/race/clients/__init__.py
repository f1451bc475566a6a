"""What a Python user gets: each broker's own client, as its documentation uses it. Never tuned beyond that."""
