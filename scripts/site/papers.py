"""The papers of the library: where each definition comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PAPERS: Final[Mapping[str, tuple[str, ...]]] = {
    # neurons
    "adex": (
        "R. Brette and W. Gerstner (2005). Adaptive exponential integrate-and-fire model as an effective description "
        "of neuronal activity. *Journal of Neurophysiology* 94:3637-3642.",
    ),
    "alif": (
        "G. Bellec, D. Salaj, A. Subramoney, R. Legenstein and W. Maass (2018). Long short-term memory and "
        "learning-to-learn in networks of spiking neurons. *Advances in Neural Information Processing Systems* 31.",
    ),
    "eif": (
        "N. Fourcaud-Trocmé, D. Hansel, C. van Vreeswijk and N. Brunel (2003). How spike generation "
        "mechanisms determine "
        "the neuronal response to fluctuating inputs. *Journal of Neuroscience* 23:11628-11640.",
    ),
    "hodgkin_huxley": (
        "A. L. Hodgkin and A. F. Huxley (1952). A quantitative description of membrane current and its application to "
        "conduction and excitation in nerve. *Journal of Physiology* 117:500-544.",
    ),
    "if_delta": (
        "P. U. Diehl, D. Neil, J. Binas, M. Cook, S.-C. Liu and M. Pfeiffer (2015). Fast-classifying, high-accuracy "
        "spiking deep networks through weight and threshold balancing. *International Joint Conference on Neural "
        "Networks*.",
    ),
    "izhikevich": (
        "E. M. Izhikevich (2003). Simple model of spiking neurons. *IEEE Transactions on Neural Networks* "
        "14:1569-1572.",
    ),
    "izhikevich_2007": (
        "E. M. Izhikevich (2007). *Dynamical Systems in Neuroscience: The Geometry of Excitability and Bursting.* "
        "MIT Press.",
    ),
    "lif": (
        "L. Lapicque (1907). Recherches quantitatives sur l'excitation électrique des nerfs traitée comme une "
        "polarisation. *Journal de Physiologie et de Pathologie Générale* 9:620-635.",
        "W. Gerstner, W. M. Kistler, R. Naud and L. Paninski (2014). *Neuronal Dynamics.* Cambridge University Press.",
    ),
    "lif_cond_alpha": (
        "W. Rall (1967). Distinguishing theoretical synaptic potentials computed for different soma-dendritic "
        "distributions of synaptic input. *Journal of Neurophysiology* 30:1138-1168.",
    ),
    "lif_cond_exp": (
        "T. P. Vogels and L. F. Abbott (2005). Signal propagation and logic gating in networks of integrate-and-fire "
        "neurons. *Journal of Neuroscience* 25:10786-10795.",
        "R. Brette et al. (2007). Simulation of networks of spiking neurons: a review of tools and strategies. "
        "*Journal of Computational Neuroscience* 23:349-398.",
    ),
    "lif_psc_alpha": (
        "S. Rotter and M. Diesmann (1999). Exact digital simulation of time-invariant linear systems with applications "
        "to neuronal modeling. *Biological Cybernetics* 81:381-402.",
    ),
    "lif_psc_exp": (
        "M. Tsodyks, A. Uziel and H. Markram (2000). Synchrony generation in recurrent networks with "
        "frequency-dependent synapses. *Journal of Neuroscience* 20:RC50.",
        "S. Rotter and M. Diesmann (1999). Exact digital simulation of time-invariant linear systems with applications "
        "to neuronal modeling. *Biological Cybernetics* 81:381-402.",
    ),
    "lif_psc_exp_2": (
        "S. Rotter and M. Diesmann (1999). Exact digital simulation of time-invariant linear systems with applications "
        "to neuronal modeling. *Biological Cybernetics* 81:381-402.",
    ),
    "qif": (
        "G. B. Ermentrout and N. Kopell (1986). Parabolic bursting in an excitable system coupled with a slow "
        "oscillation. *SIAM Journal on Applied Mathematics* 46:233-253.",
        "P. E. Latham, B. J. Richmond, P. G. Nelson and S. Nirenberg (2000). Intrinsic dynamics in neuronal networks. "
        "I. Theory. *Journal of Neurophysiology* 83:808-827.",
    ),
    "rulkov": (
        "N. F. Rulkov (2002). Modeling of spiking-bursting neural behavior using two-dimensional map. *Physical Review "
        "E* 65:041922.",
    ),
    "traub_miles": (
        "R. D. Traub and R. Miles (1991). *Neuronal Networks of the Hippocampus.* Cambridge University Press.",
        "R. Brette et al. (2007). Simulation of networks of spiking neurons: a review of tools and strategies. "
        "*Journal of Computational Neuroscience* 23:349-398.",
    ),
    "wang_buzsaki": (
        "X.-J. Wang and G. Buzsáki (1996). Gamma oscillation by synaptic inhibition in a hippocampal interneuronal "
        "network model. *Journal of Neuroscience* 16:6402-6413.",
    ),
    # currents
    "ornstein_uhlenbeck": (
        "G. E. Uhlenbeck and L. S. Ornstein (1930). On the theory of the Brownian motion. *Physical Review* "
        "36:823-841.",
        "D. T. Gillespie (1996). Exact numerical simulation of the Ornstein-Uhlenbeck process and its integral. "
        "*Physical Review E* 54:2084-2091.",
    ),
    # synapses
    "gap_junction": (
        "N. Kopell and B. Ermentrout (2004). Chemical and electrical synapses perform complementary roles in the "
        "synchronization of interneuronal networks. *PNAS* 101:15482-15487.",
    ),
    "graded": (
        "X.-J. Wang and J. Rinzel (1992). Alternating and synchronous rhythms in reciprocally inhibitory "
        "model neurons. "
        "*Neural Computation* 4:84-97.",
    ),
    "nmda": (
        "C. E. Jahr and C. F. Stevens (1990). Voltage dependence of NMDA-activated macroscopic conductances predicted "
        "by single-channel kinetics. *Journal of Neuroscience* 10:3178-3182.",
        "X.-J. Wang (1999). Synaptic basis of cortical persistent activity: the importance of NMDA receptors "
        "to working "
        "memory. *Journal of Neuroscience* 19:9587-9603.",
    ),
    "stdp_additive": (
        "S. Song, K. D. Miller and L. F. Abbott (2000). Competitive Hebbian learning through spike-timing-dependent "
        "synaptic plasticity. *Nature Neuroscience* 3:919-926.",
    ),
    "stdp_multiplicative": (
        "M. C. W. van Rossum, G. Q. Bi and G. G. Turrigiano (2000). Stable Hebbian learning from spike "
        "timing-dependent plasticity. *Journal of Neuroscience* 20:8812-8821.",
        "J. Rubin, D. D. Lee and H. Sompolinsky (2001). Equilibrium properties of temporally asymmetric Hebbian "
        "plasticity. *Physical Review Letters* 86:364-367.",
    ),
    "stdp_nearest": (
        "A. Morrison, M. Diesmann and W. Gerstner (2008). Phenomenological models of synaptic plasticity "
        "based on spike "
        "timing. *Biological Cybernetics* 98:459-478.",
    ),
    "stdp_triplet": (
        "J.-P. Pfister and W. Gerstner (2006). Triplets of spikes in a model of spike timing-dependent plasticity. "
        "*Journal of Neuroscience* 26:9673-9682.",
    ),
    "stdp_triplet_hippocampal": (
        "J.-P. Pfister and W. Gerstner (2006). Triplets of spikes in a model of spike timing-dependent plasticity. "
        "*Journal of Neuroscience* 26:9673-9682.",
    ),
    "stochastic_release": (
        "J. del Castillo and B. Katz (1954). Quantal components of the end-plate potential. *Journal of Physiology* "
        "124:560-573.",
    ),
    "tsodyks_markram": (
        "M. Tsodyks, K. Pawelzik and H. Markram (1998). Neural networks with dynamic synapses. *Neural Computation* "
        "10:821-835.",
        "W. Maass and H. Markram (2002). Synapses as dynamic memory buffers. *Neural Networks* 15:155-161.",
    ),
    # optimizers
    "adadelta": ("M. D. Zeiler (2012). ADADELTA: an adaptive learning rate method. arXiv:1212.5701.",),
    "adagrad": (
        "J. Duchi, E. Hazan and Y. Singer (2011). Adaptive subgradient methods for online learning and stochastic "
        "optimization. *Journal of Machine Learning Research* 12:2121-2159.",
    ),
    "adam": (
        "D. P. Kingma and J. Ba (2015). Adam: a method for stochastic optimization. *International Conference on "
        "Learning Representations*.",
    ),
    "adamax": (
        "D. P. Kingma and J. Ba (2015). Adam: a method for stochastic optimization. *International Conference on "
        "Learning Representations*.",
    ),
    "adamw": (
        "I. Loshchilov and F. Hutter (2019). Decoupled weight decay regularization. *International Conference on "
        "Learning Representations*.",
    ),
    "amsgrad": (
        "S. J. Reddi, S. Kale and S. Kumar (2018). On the convergence of Adam and beyond. *International Conference on "
        "Learning Representations*.",
    ),
    "lamb": (
        "Y. You et al. (2020). Large batch optimization for deep learning: training BERT in 76 minutes. *International "
        "Conference on Learning Representations*.",
    ),
    "lion": (
        "X. Chen et al. (2023). Symbolic discovery of optimization algorithms. *Advances in Neural Information "
        "Processing Systems* 36.",
    ),
    "momentum": (
        "B. T. Polyak (1964). Some methods of speeding up the convergence of iteration methods. *USSR Computational "
        "Mathematics and Mathematical Physics* 4:1-17.",
    ),
    "nadam": (
        "T. Dozat (2016). Incorporating Nesterov momentum into Adam. *International Conference on Learning "
        "Representations, workshop track*.",
    ),
    "nesterov": (
        "I. Sutskever, J. Martens, G. Dahl and G. Hinton (2013). On the importance of initialization and momentum in "
        "deep learning. *International Conference on Machine Learning*.",
    ),
    "radam": (
        "L. Liu et al. (2020). On the variance of the adaptive learning rate and beyond. *International Conference on "
        "Learning Representations*.",
    ),
    "rmsprop": (
        "T. Tieleman and G. Hinton (2012). Lecture 6.5: RMSprop. *COURSERA: Neural Networks for Machine Learning*.",
    ),
    "sgd": (
        "H. Robbins and S. Monro (1951). A stochastic approximation method. *Annals of Mathematical Statistics* "
        "22:400-407.",
    ),
}

WITHOUT: Final = frozenset(
    {
        "dc", "from_file", "gaussian_noise", "poisson_exp", "sine", "step",
        "inhomogeneous_poisson", "poisson", "spike_times", "static",
    }
)  # fmt: skip
"""Definitions that need no paper."""
