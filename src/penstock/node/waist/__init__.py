"""The waist: the only part of the node that doors call. Verbs by family; every verb takes the caller's Session."""
