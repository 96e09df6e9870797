"""The passes, in the order in which they run (compiler/passes/pipeline.py strings them together).

Spiking, level 0:     freeze_learning
Spiking, level 1:     lower_model (free_names, plain_control, insert_delays), integrate_odes (linear_system),
                      quanta (bounds)
Spiking, to level 2:  lower_drives, then
                      lower_cells (split_cells, lower_pools, lower_spike_times, cell_arrays, cell_columns, init_values),
                      lower_records, lower_projections (stages, relations, planes, lower_connect,
                      lower_static, lower_synapses: synapse_names, synapse_text, synapse_values, synapse_arrays,
                      synapse_rows, synapse_sums, synapse_rewire), lower_inputs
Tensors, level 1:     lower_network, lower_loss, differentiate, expand_updates, decompose, simplify_graph, fuse_maps,
                      hoist_factors, early_factors, recompute
Tensors, to level 2:  load_data, lower_tensors (assign_layouts, fuse_epilogues, fuse_siblings, reuse_arrays,
                      nest_builder, lower_feeds, lower_weights, lower_epilogues; compiler/strategies), require_fusion
Tensors in use:       lower_predict (fold_norms, then as above from lower_network on)
Level 2:              merge, chains and gather where a target runs chains, then when memory is known plan_memory and
                      write_tables
"""
