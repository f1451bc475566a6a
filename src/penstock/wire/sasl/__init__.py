"""Server side of SASL: PLAIN, SCRAM and OAUTHBEARER as exchanges of tokens. No I/O, no clock, no randomness."""
