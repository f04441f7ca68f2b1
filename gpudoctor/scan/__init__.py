"""`gpudoctor scan`: what libraries, wheels and environments carry, and which cards they leave out."""
