"""The help of diagnostics is correct: each case of the error corpus below loads once its help is followed.

The messages themselves are the corpus (test_errors.py). Here stands, for each, what is replaced by what; what is
written must be in the text of the message, word for word, but for places that it leaves open (`...`).
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from compiler.frontend.load import load_model
from compiler.frontend.resolve.use import LibraryFinder
from compiler.frontend.schema.other_simulators import OTHER_NAMES

HERE = Path(__file__).parent

FOLLOWED: dict[str, list[tuple[str, str]]] = {
    "mixed_and_bitwise": [("order: bitwise", "order: reproducible")],
    "parameter_declared_later": [("c: -65, d: 8, r: 0.5", "r: 0.5, c: -65, d: 8")],
    "space_after_a_colon": [("size:10", "size: 10")],
    "uniform_weights_low_high": [("{low: -0.1, high: 0.1}", "{bound: 0.05}")],
    "if_as_a_statement": [("if v > 1: v = 0", "v = 0 if v > 1 else v")],
    "concat_of_whole_and_real_numbers": [
        ("    - concat: {inputs: [kinds,", "    - map: {kinds_real: float(kinds)}\n    - concat: {inputs: [kinds_real,")
    ],
    "duration_without_an_end": [("duration: inf", "duration: 100000 s")],
    "listed_delays_in_a_block": [("2.6 ms]", "2.6 ms], round: nearest")],
    "delays_of_a_file": [("array: weight}", "array: weight, round: nearest}")],
    "mixed_without_layers": [("precision: mixed", "precision: float32")],
    "brian_uniform": [('"uniform(-65, -50)"', "{uniform: {low: -65 mV, high: -50 mV}}")],
    "brian_rand": [("-65 mV + 15 mV * rand()", "{uniform: {low: -65 mV, high: -65 mV + 15 mV}}")],
    "brian_randn": [("-65 mV + 5 mV * randn()", "{normal: {mean: -65 mV, std: 5 mV}}")],
    "drawn_weight_as_a_call": [('"normal(0.1, 0.01)"', "{normal: {mean: 0.1 mV, std: 0.01 mV}}")],
    "drawn_delay_as_a_call": [('"uniform(1, 5)"', "{uniform: {low: 1 ms, high: 5 ms, round: nearest}}")],
    "uniform_in_update": [("uniform(0, 1)", "0 + (1 - 0) * random()")],
    "uniform_as_a_list": [("[-65 mV, -50 mV]", "{low: -65 mV, high: -50 mV}")],
    "unit_times_number": [("20*ms", "20 ms")],
    "unit_alone": [("v_rest: mV", "v_rest: 1 mV")],
    "unit_spelled_out": [("20 mVolt", "20 mV")],
    "unit_pamp": [("20 pAmp", "20 pA")],
    "unit_of_an_equation": [(' : volt"', '"')],
    "unit_where_none_is": [("12 mV", "12")],
    "members_as_a_slice": [("0:10", "0..9")],
    "members_as_a_call": [("range(10)", "0..9")],
    "library_family_of_synapses": [("library/synapses/stdp,", "library/synapses/stdp_additive,")],
    "nest_iaf_psc_exp": [("neuron: iaf_psc_exp", "neuron: library/neurons/lif_psc_exp_2")],
    "nest_poisson_generator": [("poisson_generator", "library/neurons/poisson")],
    "nest_tsodyks": [("tsodyks_synapse", "library/synapses/tsodyks_markram")],
    "padding_full": [("padding: full", "padding: 2")],
    "padding_causal": [("padding: causal", "padding: [4, 0]")],
    "attention_of_two": [("[query, memory]", "[query, memory, memory]")],
    "classes_before_steps": [
        ("kernel: 1}\n", "kernel: 1}\n    - permute: {axes: [1, 0]}\n"),
        ("logits: scores", "logits: permute_1"),
    ],
    "label_of_no_class": [("target: label", "target: label, ignore: -100")],
    "metric_top_5": [("[top_5]", "[{top: 5}]")],
    "bmm_of_pytorch": [("bmm", "matmul")],
    "matmul_of_keys": [("[q, k]", "[q, k], transposed: second")],
    "transpose_b_of_keras": [("transpose_b: true", "transposed: second")],
    "keyword_as_name": [("lambda: 5 ms", "lambda_: 5 ms")],
    "populations_by_a_pattern": [
        ("size: 5", "size: 5, classes: [group]"),
        ("classes: {}", "classes: {group: {}}"),
        ('"group_*"', "group"),
    ],
    "transposed_by_truth": [("true", "second")],
    "kv_heads_of_llama": [("num_key_value_heads", "kv_heads")],
    "pad_mode_of_numpy": [("wrap", "circular")],
    "layer_identity": [("identity: {name: x}", "slice: {name: x}")],
    "padding_in_capitals": [("SAME", "same")],
    "padding_unknown": [("half", "same")],
    "channels_last_shape": [("    - conv2d", "    - permute: {axes: [2, 0, 1]}\n    - conv2d")],
    "channels_first_data": [("[8, 8, 1]", "[1, 8, 8]")],
    "batch_in_exponential_form": [("1e6", "1000000")],
    "shape_with_the_batch": [("[null, 1, 8, 8]", "[1, 8, 8]")],
    "shape_as_a_tuple": [("(1, 8, 8)", "[1, 8, 8]")],
    "parameter_of_an_end_unknown": [("from.nominl", "from.nominal")],
    "kernel_changed_at_spikes": [("storage: toeplitz", "storage: sparse")],
    "place_in_a_synapse": [
        ("deliver(self.i)", "deliver(x)"),
        ("{s: {", "{s: {params: {x: 0}, "),
        ("synapse: s,", "synapse: s, params: {x: i},"),
    ],
    "fixed_outdegree_draws_again": [("storage: procedural", "storage: sparse")],
    "convolution_not_stored": [("storage: procedural", "storage: sparse")],
    "activation_in_capitals": [("ReLU", "relu")],
    "activation_linear": [(", activation: linear", "")],
    "optimizer_as_a_word": [("optimizer: adam", "optimizer: {adam: {learning_rate: 1e-3}}")],
    "optimizer_in_capitals": [("Adam", "adam")],
    "optimizer_lr": [("lr", "learning_rate")],
    "optimizer_betas": [("betas: [0.9, 0.999]", "beta1: 0.9, beta2: 0.999")],
    "optimizer_weight_decay": [("{adam: {weight_decay: 0.01}}", "{adamw: {decay: 0.01}}")],
    "optimizer_momentum": [("{sgd: ", "{momentum: ")],
    "optimizer_nesterov": [("{sgd: {nesterov: true}}", "{nesterov: {learning_rate: 0.1}}")],
    "dropout_as_a_key": [(", dropout: 0.5}", "}\n    - dropout: {rate: 0.5}")],
    "layer_of_pytorch": [("Conv2d", "conv2d")],
    "layer_of_keras": [("MaxPooling2D", "max_pool2d")],
    "layer_relu": [("ReLU: {}", "activation: {function: relu}")],
    "layer_keys_of_pytorch": [("out_channels: 4, kernel_size: 3", "filters: 4, kernel: 3")],
    "loss_of_pytorch": [("loss: CrossEntropyLoss", "loss: {softmax_cross_entropy: {logits: logits, target: label}}")],
    "metric_short": [("acc", "accuracy")],
    "validation_beside_data": [
        ("label: labels}}", "label: labels}, split: {validation: 0.1}}"),
        ("  validation_split: 0.1\n", ""),
    ],
    "device_in_the_model": [("  device: cuda\n", "")],
    "precision_double": [("double", "float64")],
    "products_bfloat16": [("products: bfloat16", "products: bf16")],
    "language_in_quotes": [('"1"', "1")],
    "method_short": [("exp_euler", "exponential_euler")],
    "method_in_capitals": [("RK4", "rk4")],
    "rule_with_hyphens": [("{rule: all-to-all}", "{all_to_all: {}}")],
    "rule_of_nest": [("{rule: fixed_indegree, indegree: 3}", "{fixed_indegree: {number: 3}}")],
    "connect_by_a_condition": [("connect: i != j", "connect: {rule: {when: i != j}}")],
    "connect_by_p": [("{p: 0.1}", "{fixed_probability: {p: 0.1}}")],
    "connect_by_a_word": [("connect: all-to-all", "connect: {all_to_all: {}}")],
    "probability_in_percent": [("10%", "0.1")],
    "reset_as_a_map": [("reset: {v: -65 mV}", "reset: [v = -65 mV]")],
    "derivative_without_slash": [("dvdt", "dv/dt")],
    "derivative_with_an_apostrophe": [('"v\'"', "dv/dt")],
    "equations_as_text": [("dynamics: dv/dt = (v_rest - v + g) / tau", "dynamics: {dv/dt: (v_rest - v + g) / tau}")],
    "parenthesis_not_closed": [("exp(-t/tau", "exp(-t/tau)")],
    "parenthesis_too_many": [("g))", "g)")],
    "infinity_spelled_out": [("infinity", "inf")],
    "suffix_post_in_on_pre": [("g_post += w", '"deliver(w, post.g)"')],
    "t_stop": [("t_stop", "duration")],
    "weight_without_unit": [("weight: 0.1}", "weight: 0.1 mV}")],
    "dt_without_unit": [("dt: 0.1,", "dt: 0.1 ms,")],
    "channels_last_data": [
        ("shape: [1, 8, 8]", "shape: [8, 8, 1]"),
        ("    - conv2d", "    - permute: {axes: [2, 0, 1]}\n    - conv2d"),
    ],
    "flat_data": [
        ("shape: [1, 8, 8]", "shape: [64]"),
        ("    - conv2d", "    - reshape: {shape: [1, 8, 8]}\n    - conv2d"),
    ],
    "dense_of_a_list": [("    - dense: [64, 3]", "    - dense: {units: 64}\n    - dense: {name: logits, units: 3}")],
    "learning_rate_scheduler": [
        ("{adam: {}}", '{adam: {learning_rate: "1e-3 * cosine_decay(step, steps)"}}'),
        ("  scheduler: cosine\n", ""),
    ],
}
"""For each case: the text that stands in the file, and what the help says to write."""


@pytest.mark.parametrize("name", FOLLOWED)
def test_the_help_works(tmp_path: Path, name: str) -> None:
    (case,) = HERE.glob(f"*/{name}.yaml")
    text = case.read_text(encoding="utf-8").replace("../data/", "")
    for old, new in FOLLOWED[name]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    for data in ("samples_of_others.npz", "answers.csv", "pairs.csv"):
        shutil.copy(HERE / "data" / data, tmp_path)
    path = tmp_path / "model.yaml"
    path.write_text(text, encoding="utf-8")
    load_model(path)
    told = _words(case.with_suffix(".txt").read_text(encoding="utf-8").partition("= help:")[2])
    new_words = set().union(*(_words(new) - _words(old) for old, new in FOLLOWED[name]))
    assert new_words - told <= OPEN.get(name, set())


def _words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*(?:/dt)?", text))


OPEN = {
    "classes_before_steps": {"permute_1"},
    "optimizer_weight_decay": {"decay"},
    "validation_beside_data": {"label", "labels"},
    "suffix_post_in_on_pre": {"w"},
    "dense_of_a_list": {"dense", "name", "logits"},
}
"""Words of the user's own that the message cannot know."""


def test_names_of_other_simulators_lead_to_the_library() -> None:
    library = LibraryFinder()
    for collection, names in OTHER_NAMES.items():
        assert set(names.values()) <= set(library.names(collection))
