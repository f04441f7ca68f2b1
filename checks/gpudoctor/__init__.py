"""What a job requires, and what gpudoctor could not find out."""
