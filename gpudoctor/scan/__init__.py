"""`gpudoctor scan`: the GPU code in libraries, wheels and environments, and the GPUs without code."""
