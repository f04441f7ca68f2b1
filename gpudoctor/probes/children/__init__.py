"""What runs in a child that asks the drivers: standard library only."""
