"""Protocol servers. A door translates its protocol to calls of the waist; a door never imports another door."""
