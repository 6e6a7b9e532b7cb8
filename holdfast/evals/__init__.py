"""Tests of agents: cases, what a run of one has to be like, and what has changed since."""
