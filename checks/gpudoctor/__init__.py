"""What a job requires, and what this gpudoctor does not know."""

from gpudoctor.check import Need
from gpudoctor.situation import Situation, needs

NEEDS: dict[str, Need[Situation]] = {
    "matrix_age": needs.torch,
    "pasted_text": needs.pasted,
    "requirement": lambda situation: bool(situation.required),
}
