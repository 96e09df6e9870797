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
from compiler.expr.keys.kinds import instead

_NEURONS: Final = instead(
    "lif_psc_exp_2: iaf_psc_exp IF_curr_exp",
    "lif_psc_alpha: iaf_psc_alpha IF_curr_alpha",
    "lif: iaf_psc_delta IF_curr_delta leaky integrate_and_fire",
    "lif_cond_exp: iaf_cond_exp IF_cond_exp",
    "lif_cond_alpha: iaf_cond_alpha IF_cond_alpha",
    "adex: aeif_psc_exp aeif_psc_alpha aeif_cond_exp aeif_cond_alpha EIF_cond_exp_isfa_ista",
    "hodgkin_huxley: hh_psc_alpha hh",
    "traub_miles: hh_cond_exp_traub HH_cond_exp",
    "poisson: poisson_generator SpikeSourcePoisson PoissonGroup",
    "inhomogeneous_poisson: inhomogeneous_poisson_generator",
    "spike_times: spike_generator SpikeSourceArray SpikeGeneratorGroup",
)
"""Of NEST, PyNN, Brian and others."""
_SYNAPSES: Final = instead(
    "static: static_synapse StaticSynapse",
    "stdp_multiplicative: stdp_synapse",
    "stdp_triplet: stdp_triplet_synapse",
    "tsodyks_markram: tsodyks_synapse tsodyks2_synapse TsodyksMarkramSynapse short_term_plasticity",
    "stochastic_release: bernoulli_synapse",
)
_CURRENTS: Final = instead(
    "dc: dc_generator DCSource",
    "sine: ac_generator ACSource",
    "gaussian_noise: noise_generator NoisyCurrentSource",
    "step: step_current_generator StepCurrentSource",
)
OTHER_NAMES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {"neurons": _NEURONS, "synapses": _SYNAPSES, "currents": _CURRENTS}
)
"""By collection: the name elsewhere, and the closest definition of the library."""


def in_library(collection: str, name: str) -> str | None:
    """`library/neurons/adex` for "aeif_cond_exp"; None where nothing is known."""
    names = OTHER_NAMES.get(collection, {})
    ours_named = next((ours for theirs, ours in names.items() if letters_of(theirs) == letters_of(name)), None)
    return None if ours_named is None else f"library/{collection}/{ours_named}"
