"""Files of JAX, Flax, Optax, TensorFlow, Keras and NumPy, by their names alone: XPlane gives no directories.

A file of the user's own that has one of these names is taken for a library's, and its caller is named
instead; so common names that programs use for their own files, such as ``model.py``, are not among them.
"""

from __future__ import annotations

import re

_GENERATED = re.compile(r"^gen_\w+_ops\.py$")
"""Files that TensorFlow generates for its operations, such as ``gen_math_ops.py``."""
_NAMES = frozenset(
    """
    _arraypad_impl _arraysetops_impl _dtype _function_base_impl _linalg _methods _shape_base_impl
    _stride_tricks_impl _twodim_base_impl _ufunc_config abstract_arrays abstract_rnn_cell accuracy_metrics
    activation activations activity_regularization ad ad_checkpoint ad_util adadelta adafactor adagrad
    adagrad_da adam adamax adamw adaptive_average_pooling1d adaptive_average_pooling2d
    adaptive_average_pooling3d adaptive_max_pooling1d adaptive_max_pooling2d adaptive_max_pooling3d
    additive_attention ag_ctx all_reduce all_util alpha_dropout annotate_data_placement api api_export
    api_util argument_validation array array_api_metadata array_constructors array_creation
    array_data_adapter array_grad array_methods array_ops array_ops_stack array_slicing arraysetops
    ast_util async_checkpoint_helper atomic_function aug_mix auto_contrast auto_control_deps
    auto_control_deps_utils autocast_variable autograph_ops autograph_util autotrackable average_pooling1d
    average_pooling2d average_pooling3d awq_core axes_scan backend backend_utils backprop backprop_util
    backup_and_restore base_adaptive_pooling base_conv base_conv_lstm base_conv_rnn base_conv_transpose
    base_cudnn_rnn base_delegate base_dense_attention base_depthwise_conv base_feature_layer
    base_global_pooling base_global_pooling1d base_global_pooling2d base_global_pooling3d
    base_image_preprocessing_layer base_layer base_layer_utils base_layer_v1 base_merge base_metric
    base_optimizer base_pooling base_pooling1d base_pooling2d base_pooling3d base_preprocessing_layer
    base_rnn base_separable_conv base_serialization base_wrapper basearray basic_loops
    basic_session_run_hooks batch_normalization batch_ops batching bijector_impl bincount_ops bitwise_ops
    blocked_sampler boosted_trees_ops bounding_box buffer_callback builder_impl byte_swap_tensor
    c_api_util cache_key cache_op callback callback_list callbacks_v1 candidate_sampling_ops
    capture_container cell_wrappers center_crop central_storage_strategy check_ops checkify
    checkpoint_context checkpoint_management checkpoint_ops checkpoint_options checkpoint_view
    choose_from_datasets_op client_lib clip_ops cloud_tpu_cluster cloud_tpu_init cluster_coordinator
    clustering_ops code_stats collective_all_reduce_strategy collective_ops collective_util common
    common_shapes compilation_cache compilation_cache_interface compile_utils compiler compiler_ir
    composite_tensor composite_tensor_gradient composite_tensor_ops composite_tensor_utils compression_ops
    compute_on concatenate_op concrete_function cond_v2 conditional_expressions conditionals config
    config_lib confusion_matrix confusion_metrics conjugate_gradient constant_initializers constant_op
    constraints context control_flow control_flow_assert control_flow_case control_flow_grad
    control_flow_ops control_flow_state control_flow_switch_case control_flow_util control_flow_util_v2
    control_flow_v2_func_graphs conv1d_transpose conv2d_transpose conv3d_transpose conv_lstm conv_lstm1d
    conv_lstm2d conv_lstm3d conv_utils convert_to_constants convolution coordinator_context core
    correlation_metrics counter_op cpu_triangular_solve_blas_trsm critical_section_ops cross_device_ops
    cross_device_utils csv_logger ctc_ops cudnn_gru cudnn_lstm cudnn_rnn_grad custom_api_util
    custom_batching custom_derivatives custom_gradient custom_jvp_call custom_nest_protocol
    custom_nest_trace_type custom_partitioning custom_partitioning_sharding_rule cut_mix data_adapter
    data_adapter_utils data_flow_ops data_layer data_service_ops data_structures dataset_creator
    dataset_ops dataset_utils dct_ops debug_mode decorator_utils def_function default_gradient
    default_types dense dense_features dense_features_v2 deprecated_module deprecated_module_new
    deprecation_module depthwise_conv1d depthwise_conv2d device_compatibility_check device_lib
    device_setter device_spec device_util directed_interleave_op dirichlet_multinomial dispatch
    distillation_loss distribute_coordinator distribute_coordinator_context distribute_lib
    distribute_utils distributed_training_utils_v1 distribution_lib distribution_util dmtree_impl
    doc_typealias draw_bounding_boxes draw_segmentation_masks dropout dropout_rnn_cell
    dropout_rnn_cell_mixin dtensor_strategy_extended dtensor_util dtype_policy dtype_policy_map dtypes
    dynamic_ragged_shape eager_function_run early_stopping effects einsum einsum_dense embedding_ops
    enumerate_ops environment_info epoch_iterator error_check error_interpolation error_ops error_utils
    errors_impl estimator_training execute extension_type extension_type_field f_score_metrics
    failure_handling failure_handling_util feature_space ffi fft_ops file_editor filesystem_ops filter_op
    flat_map_op flatten_util flexible_dtypes flops_registry forwardprop forwardprop_util framework_lib
    from_generator_op from_sparse_tensor_slices_op from_tensor_slices_op from_tensors_op fromnumeric
    frozen_dict ftrl func func_graph function function_base function_cache function_context
    function_def_to_graph function_deserialization function_serialization function_type
    function_type_utils function_utils function_wrappers functional functional_ops functional_saver
    functional_utils fused_attention_stablehlo gast_util gaussian_dropout gaussian_noise
    generator_data_adapter generic_utils global_average_pooling1d global_average_pooling2d
    global_average_pooling3d global_max_pooling1d global_max_pooling2d global_max_pooling3d global_state
    gptq_core gpu_eigh_solver_syev gpu_util gradient_checker gradient_checker_v2 gradient_descent
    gradients_impl gradients_util grain_dataset_adapter graph_io graph_only_ops graph_to_function_def
    graph_util graph_util_impl graph_view group_by_window_op group_normalization grouped_query_attention
    gru_lstm_utils gru_v1 gumbel_l gumbel_r handle_data_util hashable_array hashed_crossing hdf5_format
    hinge_metrics histogram_ops hlo identity_bijector ignore_errors_op image_ops image_ops_impl
    immutable_dict imperative_grad index_lookup index_tricks indexed_slices indexing init_ops init_ops_v2
    initializers initializers_ns initializers_v1 inplace_ops input_layer input_lib input_ops input_spec
    integer_lookup interleave_op interleave_ops interpreters io_ops iou_metrics is_in_graph_mode
    iterator_autograph iterator_ops jax_layer jax_utils jaxpr jaxpr_util keras_deps keras_logging
    keras_saveable keras_tensor keyword_args kullback_leibler kw_only_dataclasses lamb lambda_callback
    lambda_layer lax lax_numpy lax_reference layer layer_normalization layer_serialization layer_utils
    layers_with_named_axes layout layout_map lazy_loader lazy_variable leaky_relu learning_rate_decay
    learning_rate_schedule learning_rate_scheduler legacy_cell_wrappers legacy_cells legacy_h5_format
    legacy_learning_rate_decay lift lift_to_graph linalg_grad linalg_impl linalg_ops linalg_ops_impl
    line_search linear_algebra linear_operator linear_util lion list_ops literals loader_impl
    locally_connected1d locally_connected2d lock_util logging_ops lookahead lookup_ops loops loss_scale
    loss_scale_optimizer losses_impl losses_utils lru_cache lstm_v1 manip_grad manip_ops map_fn map_op
    map_ops math_grad math_ops max_num_bounding_box max_pooling1d max_pooling2d max_pooling3d mel_ops
    mel_spectrogram memory_checker merge_call_interim meta_graph method_name_updater metric_serialization
    metrics_impl metrics_utils mfcc_ops mirrored_run mirrored_strategy mix_up mixed_precision
    mixed_precision_global_state mlir mode_keys model_checkpoint module_utils module_wrapper
    monitor_callback monitored_session monitoring mosaic_gpu moving_averages mpi4py_cluster
    multi_device_iterator_ops multi_head_attention multi_optimizer multi_process_lib multi_process_runner
    multi_worker_mirrored_strategy multi_worker_util multivariate_normal muon nadam name_scope
    named_sharding nccl_ops nest nest_util nested_structure_coder network_serialization nn
    nn_fused_batch_norm_grad nn_grad nn_impl nn_impl_distribute nn_ops none_tensor normalization
    np_array_ops np_arrays np_dtypes np_math_ops np_random numeric numpy numpy_dataset object_identity
    object_registration ompi_cluster one_device_strategy op_callbacks op_def_library op_def_library_pybind
    op_def_registry op_selector op_shardings operation operation_utils ops optimizer
    optimizer_combinations optimizer_v1 optimizer_v2 option_builder optional_grad optional_ops optree_impl
    orbax_checkpoint orbax_util order_preserving_set origin_info packed_distributed_variable
    padded_batch_op parallel_device parsing_ops partial_batch_padding_handler partial_eval partition_spec
    partitioned_variables path_helpers pe pickle_util pjit polymorphic_function preemption_watcher
    prefetch_op prefetching_ops preprocessing_stage pretty_printer prng probabilistic_metrics profile_hook
    profiler profiler_client profiler_v2 progbar progbar_logger property_hint_util proto_ops
    proximal_adagrad proximal_gradient_descent proxy_caller ps_values pxla py_builtins
    py_checkpoint_reader py_dataset_adapter py_metric python_memory_checker python_state python_utils
    pywrap_tf_session qual_names quantize_training queue_runner queue_runner_impl ragged_array_ops
    ragged_autograph ragged_batch_gather_ops ragged_batch_gather_with_default_op ragged_batch_op
    ragged_bincount_ops ragged_check_ops ragged_concat_ops ragged_conversion_ops ragged_dispatch
    ragged_embedding_ops ragged_factory_ops ragged_functional_ops ragged_gather_ops ragged_getitem
    ragged_image_ops ragged_map_ops ragged_math_ops ragged_operators ragged_ops ragged_squeeze_op
    ragged_string_ops ragged_tensor ragged_tensor_shape ragged_tensor_value ragged_util ragged_where_op
    rand_augment random random_crop_ops random_op random_ops random_ops_util random_seed range_op
    reaching_definitions reaching_fndefs rebatch_op reconstruction_ops reduce_lr_on_plateau reduce_util
    reduction_metrics reductions ref_variable regression_metrics regularizers remat remote_monitor
    remote_value repeat_op repeat_vector resource_variable_ops restore_captures reversible_embedding
    revived_types rms_normalization rmsprop rnn_cell rnn_cell_impl rnn_grad rnn_utils row_partition
    rpc_ops sample_from_datasets_op save_context saveable_compat saveable_object saveable_object_util
    saved_model_exported_concrete saver saver_utils saving_api saving_lib saving_options scalar_types
    scaled_dot scaled_matmul_stablehlo scan_op scan_ops schedule_free_adamw script_ops sdca_ops
    seed_generator segment_id_ops separable_conv1d separable_conv2d sequence_feature_column sequential
    serialization_generated serialization_lib serialized_attributes server_lib session session_manager
    session_ops session_run_hook sets_impl sgd shape_base shape_ops shape_poly shape_poly_decision
    shape_util shard_alike shard_map shard_op sharded_variable sharding_impls
    shardy_sharding_ops_with_different_meshes shared_variable_creator sharpness_aware_minimization
    shuffle_op shuffle_ops sidecar_evaluator signal_helper signature_constants signature_def_utils_impl
    signature_serialization simple_rnn simple_save skip_op sklearn_wrapper slicing slot_creator
    slurm_cluster smart_cond snapshot_op sort_ops source_info_util sparse_batch_op sparse_csr_matrix_grad
    sparse_csr_matrix_ops sparse_grad sparse_ops sparse_tensor spatial_dropout spatial_dropout1d
    spatial_dropout2d spatial_dropout3d special_math special_math_ops spectral_normalization spectral_ops
    spmd stacked_rnn_cells stages standard_ops state_grad state_ops stateful_random_ops stateful_rng
    stateless_random_ops stateless_scope step_fn steps_per_execution_tuning stft_spectrogram stochastic
    strategy_combinations strict_mode stride_tricks string_lookup string_ops structured_array_ops
    structured_function structured_ops structured_tensor structured_tensor_dynamic student_t summary_io
    summary_op_util summary_ops_v2 swap_ema_weights symbolic_arguments symbolic_scope
    sync_replicas_optimizer tag_constants take_op take_while_op take_while_ops tape tensor
    tensor_array_grad tensor_array_ops tensor_attributes tensor_callable tensor_contractions
    tensor_conversion tensor_conversion_registry tensor_shape tensor_spec tensor_util terminate_on_nan
    tf_contextlib tf_dataset_adapter tf_decorator tf_decorator_export tf_export tf_inspect
    tf_method_target tf_op_layer tf_should_use tf_stack tf_utils tfprof_logger tfsm_layer threefry
    thresholded_relu time_distributed timed_threads torch_parallel_optimizer torchtree_impl trace
    trace_saveable_util trace_type_builder traceable_stack traceback_util traceback_utils
    tracing_compilation tracing_utils trackable trackable_utils trackable_view tracking trainer
    training_arrays_v1 training_distributed_v1 training_eager_v1 training_generator_v1 training_ops
    training_util training_utils_v1 training_v1 tree tree_api tree_util twodim_base type_annotations
    type_dispatch type_inference type_spec type_spec_registry type_utils ufunc_api ufuncs unbatch_op
    unconnected_gradients unique_op unit_normalization unsupported_features_checker up_sampling1d
    up_sampling2d up_sampling3d util util_ops utils_impl values_util values_v2 variable_mapping
    variable_scope variable_utils variable_v1 variables warm_starting_util weak_tensor weak_tensor_ops
    weakref_lru_cache weights_broadcast_ops while_loop while_v2 while_v2_indexed_slices_rewriter
    window_functions window_op window_ops windowed_reductions worker_training_state wrap_function
    xla_bridge xla_client xla_metadata xla_metadata_lib xla_transform zero_padding1d zero_padding2d
    zero_padding3d zip_op
    """.split()  # noqa: SIM905  a list would take a line for each
)


def is_library_file(name: str) -> bool:
    """Return whether a file's name, without its directory, is that of a module of these libraries."""
    return name.removesuffix(".py") in _NAMES or bool(_GENERATED.match(name))
