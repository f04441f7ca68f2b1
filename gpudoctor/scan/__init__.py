"""`gpudoctor scan`: what libraries, wheels and environments carry, and which GPUs they leave out."""
