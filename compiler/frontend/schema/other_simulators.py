"""Names of the library's definitions in other simulators.

Assumes: the files of models/library.
Guarantees: names of the library only (a test reads them).
Does not: accept the other names; messages mention ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from compiler.core.diagnostics import letters_of

_NEURONS: Final = {
    # NEST
    "iaf_psc_exp": "lif_psc_exp_2",
    "iaf_psc_alpha": "lif_psc_alpha",
    "iaf_psc_delta": "lif",
    "iaf_cond_exp": "lif_cond_exp",
    "iaf_cond_alpha": "lif_cond_alpha",
    "aeif_psc_exp": "adex",
    "aeif_psc_alpha": "adex",
    "aeif_cond_exp": "adex",
    "aeif_cond_alpha": "adex",
    "hh_psc_alpha": "hodgkin_huxley",
    "hh_cond_exp_traub": "traub_miles",
    "poisson_generator": "poisson",
    "inhomogeneous_poisson_generator": "inhomogeneous_poisson",
    "spike_generator": "spike_times",
    # PyNN
    "IF_curr_exp": "lif_psc_exp_2",
    "IF_curr_alpha": "lif_psc_alpha",
    "IF_curr_delta": "lif",
    "IF_cond_exp": "lif_cond_exp",
    "IF_cond_alpha": "lif_cond_alpha",
    "EIF_cond_exp_isfa_ista": "adex",
    "HH_cond_exp": "traub_miles",
    "SpikeSourcePoisson": "poisson",
    "SpikeSourceArray": "spike_times",
    # Brian and others
    "PoissonGroup": "poisson",
    "SpikeGeneratorGroup": "spike_times",
    "hh": "hodgkin_huxley",
    "leaky": "lif",
    "integrate_and_fire": "lif",
}
_SYNAPSES: Final = {
    "static_synapse": "static",
    "stdp_synapse": "stdp_multiplicative",
    "stdp_triplet_synapse": "stdp_triplet",
    "tsodyks_synapse": "tsodyks_markram",
    "tsodyks2_synapse": "tsodyks_markram",
    "bernoulli_synapse": "stochastic_release",
    "TsodyksMarkramSynapse": "tsodyks_markram",
    "StaticSynapse": "static",
    "short_term_plasticity": "tsodyks_markram",
}
_CURRENTS: Final = {
    "dc_generator": "dc",
    "ac_generator": "sine",
    "noise_generator": "gaussian_noise",
    "step_current_generator": "step",
    "DCSource": "dc",
    "ACSource": "sine",
    "NoisyCurrentSource": "gaussian_noise",
    "StepCurrentSource": "step",
}
OTHER_NAMES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {"neurons": _NEURONS, "synapses": _SYNAPSES, "currents": _CURRENTS}
)
"""By collection: the name elsewhere, and the closest definition of the library."""


def in_library(collection: str, name: str) -> str | None:
    """`library/neurons/adex` for "aeif_cond_exp"; None where nothing is known."""
    names = OTHER_NAMES.get(collection, {})
    ours_named = next((ours for theirs, ours in names.items() if letters_of(theirs) == letters_of(name)), None)
    return None if ours_named is None else f"library/{collection}/{ours_named}"
