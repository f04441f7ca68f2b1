"""Probes: from a host to facts. None of them judges, none needs root, torch, a driver or lspci."""
