"""Authentication with files, keys and time: TLS contexts, certificates, bearer tokens, secrets, the file of users."""
