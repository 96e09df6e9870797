"""The passes, in the order in which they run (compiler/passes/pipeline.py strings them together).

Spiking, level 1:     lower_model (free_names), integrate_odes (linear_system)
Spiking, to level 2:  lower_cells (init_values), lower_records, lower_projections (lower_connect), lower_inputs
Tensors, level 1:     lower_network, lower_loss, differentiate, expand_updates, decompose, simplify_graph, fuse_maps
Tensors, to level 2:  load_data, lower_tensors (assign_layouts, fuse_epilogues, nest_builder, lower_feeds,
                      lower_weights; compiler/strategies)
Level 2:              merge, then when memory is known plan_memory and write_tables
"""
