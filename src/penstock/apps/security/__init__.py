"""Certificates, first users and client configuration for development: what `penstock security` makes and checks."""
