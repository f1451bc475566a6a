"""Transactional ids and the states that a transaction passes through."""
