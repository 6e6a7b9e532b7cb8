"""Approval of all calls of one answer, and what remains of an approved plan."""
