"""THE WAIST: what doors call, and nothing else of the node. Verbs by family; every verb is told who calls."""
