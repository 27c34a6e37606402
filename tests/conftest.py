"""Fixtures and markers that every test of the tree shares."""
