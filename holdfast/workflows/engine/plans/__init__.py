"""Approval of all calls of one answer, and the remainder of an approved plan."""
