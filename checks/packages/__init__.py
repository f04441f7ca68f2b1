"""Packages that are installed beside a framework."""
