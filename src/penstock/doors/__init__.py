"""The ways in. A door translates its protocol to calls of the waist; a door never imports a door."""
