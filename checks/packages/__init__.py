"""What is installed beside a framework."""
