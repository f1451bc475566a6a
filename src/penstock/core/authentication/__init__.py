"""Values of authentication: secrets, SCRAM credentials, names in certificates, principals. No I/O and no clock."""
