"""What several tests need: made-up machines, hosts, environments, wheels, indexes."""
