"""Profiles in the formats that other programs open."""
