"""Probes: from a host to facts. No probe judges, and none needs root, torch, a driver or lspci."""
