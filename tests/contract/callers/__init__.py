"""One caller for each door: the same few acts, said in that door's own language over a bare socket."""
