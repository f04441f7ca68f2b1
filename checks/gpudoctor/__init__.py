"""What a job requires, and what this gpudoctor does not know."""

from gpudoctor.situation import needs

NEEDS = {"matrix_age": needs.torch, "pasted_text": needs.pasted, "requirement": needs.requirements}
