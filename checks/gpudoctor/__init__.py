"""What a job requires, and what this gpudoctor does not know."""
