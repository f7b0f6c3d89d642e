"""Names that tell a purpose: one table of rules, each with a name that it is made for.

Several parts, because what lies within an event depends on its purpose. The model's purposes are those of the
nearest event around that has one. An activity holds everything in it: a copy made while a checkpoint is
written belongs to the checkpoint. A wait is the own time of the event alone.

A rule is searched for, not matched whole; of one part the first that is found counts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from stepscope.attribute.device import SYNCHRONIZING
from stepscope.attribute.purpose import Purpose, Source


class Rule(NamedTuple):
    """Names of one purpose.

    Attributes:
        purpose: It.
        pattern: A regular expression.
        example: A name as it is recorded, which a test looks up.
        source: How such a name makes the purpose known, if its kind does not say it.
    """

    purpose: Purpose
    pattern: str
    example: str
    source: Source | None = None


_OPTIMIZERS = r"(?:Ada\w+|Momentum|SGD|RMSProp\w*|Ftrl\w*|GradientDescent|Lion|Lamb)"


def _rules(table: str) -> tuple[Rule, ...]:
    """Return the rules of a table: below a purpose its examples, and below each of these the pattern.

    How such names make the purpose known stands beside it, if their kind does not say it.
    """
    rules: list[Rule] = []
    purpose, source = Purpose.UNKNOWN, ""
    for line in table.splitlines():
        text = line.lstrip()
        if not text or line.startswith(("# ", "    # ")):
            continue
        if text == line:
            name, _, source = text.upper().partition(", ")
            purpose = Purpose[name]
        elif line.startswith(" " * 8):
            rules[-1] = rules[-1]._replace(pattern=rules[-1].pattern + text)
        else:
            rules.append(Rule(purpose, "", text, Source[source] if source else None))
    return tuple(rules)


MODEL = (
    *_rules(r"""
# PyTorch: torch.optim's own annotations, and those of the usual hand-made ones
optimizer, recorded
    Optimizer.step#AdamW.step
        ^Optimizer\.(?:step|zero_grad)#
optimizer
    ## optimizer ##
        (?i:^\W*optimi[sz]er(?:[ _.]?(?:step|update|pass))?\W*$)
backward, link
    autograd::engine::evaluate_function: AddmmBackward0
        ^(?:autograd::engine::evaluate_function|torch::autograd::)
    AddmmBackward0
        ^\w+Backward\d*$
backward
    backward pass
        (?i:^\W*(?:loss[ _.]?)?backward(?:[ _.]?(?:step|pass))?\W*$)
    FullyShardedDataParallel._post_backward_hook
        ^(?:DistributedDataParallel|FullyShardedDataParallel|FSDP)\W+\w*backward
forward
    DistributedDataParallel.forward
        ^(?:DistributedDataParallel|FullyShardedDataParallel|FSDP)\W+\w*forward
    ## forward ##
        (?i:^\W*(?:model[ _.]?)?forward(?:[ _.]?(?:step|pass))?\W*$)
# JAX: the transformations that made an operator are part of its name
backward, link
    jit(step)/transpose(jvp(loss))/dot_general
        \btranspose\(
forward, link
    jit(step)/jvp(loss)/dot_general
        \bjvp\(
# TensorFlow and Keras: name scopes, and operators that update variables
backward
    gradient_tape/model/dense/MatMul
        (?:^|/)(?:gradients?(?:_\d+)?|gradient_tape)(?:/|$)
"""),
    Rule(Purpose.OPTIMIZER, r"(?:^|/)(?:Resource)?(?:Sparse)?Apply" + _OPTIMIZERS, "Adam/ResourceApplyAdam"),
    Rule(Purpose.OPTIMIZER, r"(?:^|/)" + _OPTIMIZERS + r"(?:_\d+)?(?:/|$)", "train/Adam/mul"),
)
"""Names of the model's parts."""

STACKS = _rules(r"""
optimizer
    torch/optim/adamw.py(200): step
        torch/optim/|/optimizers?/|optax/
backward
    torch/_tensor.py(600): backward
        _engine_run_backward|torch/autograd/(?:__init__|function)\.py|torch/_tensor\.py\(\d+\): backward
        |torch::autograd::(?:Engine|python::PythonEngine)::
gradients
    torch/nn/utils/clip_grad.py(100): clip_grad_norm_
        torch/(?:nn/utils/clip_grad|(?:cuda/)?amp/grad_scaler)\.py\(\d+\):[ ]
forward
    torch/nn/modules/linear.py(120): forward
        _call_impl$|\.py\(\d+\): forward$
""")
"""Frames of the model's parts."""

ACTIVITIES = _rules(r"""
loading
    torch/utils/data/dataloader.py(628): __next__
        (?:^|/)torch/utils/data/(?:dataloader|_utils/\w+)\.py\(\d+\): (?:__next__|_next_data|fetch
        |_try_get_data|_get_data|__iter__)|__next__ \((?:.*/)?dataloader\.py:\d+\)|^IteratorGetNext
        |tf_data|iterator_ops\.py[:(]\d+\)?:? (?:__next__|next)
        |\$(?:py_dataset_adapter|data_adapter\w*|\w+_data_adapter|\w+_loader_adapter)\.py:\d+[ ]
        |(?:^|/)keras/src/trainers/data_adapters/\S+\.py[:(]
profiling
    torch/profiler/profiler.py(704): step
        (?:^|/)torch/(?:profiler|autograd)/profiler\w*\.py\(\d+\): (?:start\w*|stop\w*|__enter__|__exit__
        |step|_transit_action|prepare_trace|export_\w+|_?enable\w*|_?disable\w*|toggle_\w+)$
    $profiler.py:101 start_trace
        (?:^|/|\$)profiler\.py[:(]\d+\)?:? (?:start_trace|stop_trace|start_server|_?stop_and_\w+)
    <built-in method _disable_profiler of PyCapsule object at 0x7f>
        <built-in (?:method|function) (?:_(?:enable|disable)_profiler|_prepare_profiler|start_trace
        |stop_trace)
    Activity Buffer Request
        ProfilerSession|cu(?:da|pti)ProfilerSt|^Activity Buffer Request$|^Buffer Flush$|^Instrumentation$
compiling
    _compile.compile_inner (dynamo_timed)
        \((?:dynamo_timed|compile_time)\)$|^TorchDynamo Cache Lookup$
    torch/_dynamo/convert_frame.py(600): compile
        (?:^|/)torch/_(?:dynamo|inductor)/(?!eval_frame|external_utils|backends/debugging|runtime_wrappers
        |output_code|utils\.py|cudagraph_trees|runtime|hooks|decorators|create_parameter_op)\S+\.py\(
    # Not vmap, grad and jvp, which run eagerly.
    torch/_functorch/partitioners.py(80): default_partition
        (?:^|/)torch/_functorch/(?:_aot_autograd/(?!runtime_wrappers|utils)|partitioners
        |compilers)\S*\.py\(
    triton/compiler/compiler.py(226): compile
        (?:^|/)triton/compiler/\S+\.py\(\d+\): (?:compile|make_\w+|ast_to_ttir)\b
        |(?:^|/)triton/runtime/(?:jit|autotuner)\.py\(\d+\): (?:_do_compile|compile|bench)
    XlaCompile
        (?:^|[ :$/])(?:backend_compile|XlaCompile\w*|Xla[A-Z]?\w*Compile|PjRt\w*Compile\w*|BackendCompile
        |CompileToBackend\w*)
    NVPTXCompiler::CompileTargetBinary
        (?:Cpu|Gpu|Tpu|NVPTX|AMDGPU)Compiler::|HloPassPipeline|RunHloPasses|RunBackend
        |LocalClient::Compile|XlaBuilder
    TfrtCpuClient::Compile
        TfrtCpuClient::Compile|PjRtClient::Compile|CommonPjRtClient::Compile|::CompileAndLoad
        |::Compile(?:Single|Module)?\b
    $pjit.py:99 _pjit_lower
        trace_to_jaxpr|lower_sharding_computation|lower_jaxpr_to_module|compile_or_get_cached|_pjit_lower
        |pjit\.lower
    $partial_eval.py:20 trace_to_subjaxpr
        \$?(?:compiler|mlir|partial_eval)\.py[:(]\d+\)?:? (?:backend_compile|compile_or_get_cached
        |lower_\w+|trace_to_\w+)
    # Calls of what is traced already go through the same modules: only making a new function counts.
    tensorflow/python/eager/polymorphic_function/tracing_compilation.py(300): _create_concrete_function
        (?:^|/)tensorflow/\S*polymorphic_function/(?:trac\w+|polymorphic_function
        |compiler_ir)\.py\(\d+\): (?:_create_concrete_function|_create_implements_attribute
        |from_\w+_graph)$
    tf.function-graph_building
        tracing_compil\w+\.py:\d+ _create_concrete_function|^tf\.function-graph_building$
        |(?:^|/)tensorflow/\S*framework/func_graph\.py\(\d+\): func_graph_from_py_func$
    nvrtcCompileProgram
        ^(?:nvrtc|hiprtc)Compile\w*|^cuModuleLoad\w*|^hipModuleLoad\w*|^cuLibraryLoad\w*
saving
    torch/serialization.py(850): save
        (?:^|/)torch/serialization\.py\(\d+\): save$
        |(?:^|/)torch/distributed/checkpoint/\S+\.py\(\d+\): (?:save|async_save)
    train.py(40): save_checkpoint
        ^(?!.*load)(?:.*[ :.#/])?(?:save_checkpoint|save_model|save_weights|save_pretrained|save_state
        |_save_checkpoint|checkpoint_save|write_checkpoint|saving_checkpoint)\b
    checkpoint
        ^(?:ss|stepscope)?[./ ]?(?:checkpoint|checkpointing|save checkpoint)$
    orbax/checkpoint/checkpointer.py(90): save
        (?:^|/)orbax/\S+\.py\(\d+\): save|(?:^|/)safetensors/\S+\.py\(\d+\): save|^(?:\S*/)?SaveV2$
        |MergeV2Checkpoints|SaveTensors
    tensorflow/python/training/saver.py(700): save
        (?:^|/)tensorflow/python/(?:checkpoint/(?:checkpoint\w*|functional_saver)|training/saver
        |saved_model/save)\.py\(\d+\): (?:_?save\w*|_?write\w*)$
    keras/src/legacy/saving/legacy_h5_format.py(20): save_model_to_hdf5
        (?:^|/)keras/\S*(?:saving|hdf5|legacy)\S*\.py\(\d+\): (?:_?save\w*|export)$
        |(?:^|/)h5py/\S+\.py\(\d+\): create_dataset$
    save (torch/serialization.py:850)
        \bsave \((?:.*/)?(?:serialization|saving_api|checkpointer)\.py:\d+\)
    $checkpoint.py:30 save
        \$(?:serialization|saving_api|checkpointer|checkpoint)\.py:\d+ (?:save|_save|write)\w*
    numpy/lib/npyio.py(500): savez
        numpy/lib/\S*npyio\S*\.py\(\d+\): savez?(?:_compressed)?$
    # What puts any object into bytes: in a loop of training, weights or a state.
    <call of pickle.dump>
        ^<call of (?:\w+\.)*(?:_?pickle|cPickle|cloudpickle|dill|joblib|msgpack|marshal)\.(?:dumps?
        |packb?)>$|^<call of .*\.tofile>$
    flax/serialization.py(70): to_bytes
        (?:^|/)(?:cloudpickle|dill|joblib|flax)/\S*(?:pickle|_dill
        |serialization)\S*\.py\(\d+\): (?:_?dumps?|to_bytes|msgpack_serialize)$
        |(?:^|/)pickle\.py\(\d+\): (?:dump|save)$
logging
    logging/__init__.py(1400): info
        (?:^|/|\$)logging/__init__\.py\(\d+\): (?:debug|info|warning|error|critical|exception|log|_log)$
    <built-in method print of module object at 0x7f>
        <built-in (?:method|function) print\b|^<call of (?:(?:builtins|rich|pprint)\.)?p?print>$
    <call of csv_writer.writerow>
        ^<call of (?:.*\.)?(?:writerows?|to_csv|write(?:lines|_text|_bytes)?)>$|(?:^|/)pprint\.py\(\d+\):[ ]
        |(?:^|/)pathlib(?:/\w+)?\.py\(\d+\): write_(?:text|bytes)$
    # What puts results into files: tables, JSON, pictures, sounds.
    pandas/core/generic.py(3700): to_csv
        (?:^|/)(?:pandas|polars|pyarrow|fastparquet|openpyxl|xarray|zarr)/\S+\.py\(\d+\):[ ]
        (?:(?:to|write|sink)_(?:csv|json|ndjson|jsonl|parquet|excel|feather|hdf|hdf5|pickle|sql|html
        |markdown|latex|netcdf|ipc|avro|zarr)|(?:write|sink)_table|save)$
    json/__init__.py(120): dump
        (?:^|/)(?:json|simplejson)/__init__\.py\(\d+\): dumps?$
        |(?:^|/)yaml/__init__\.py\(\d+\): \w*dump\w*$
        |^<call of (?:\w+\.)*(?:json|simplejson|orjson|ujson|rapidjson|yaml|toml\w*)\.\w*dumps?>$
    PIL/Image.py(2400): save
        (?:^|/)PIL/Image\.py\(\d+\): save$|(?:^|/)torchvision/utils\.py\(\d+\): (?:save_image|make_grid)$
        |(?:^|/)(?:imageio|skimage|soundfile|plotly|scipy/io)\S*\.py\(\d+\): (?:m?imwrite|m?imsave
        |write\w*)$
        |^<call of (?:.*\.)?(?:imwrite|imsave|savefig|savetxt|write_(?:png|jpeg|video|image|html))>$
        |numpy/lib/\S*npyio\S*\.py\(\d+\): savetxt$
    wandb/sdk/wandb_run.py(1500): log
        (?:^|/)(?:tensorboard|tensorboardX|wandb|mlflow|comet_ml|aim)/\S+\.py\(\d+\):[ ]
    matplotlib/figure.py(3000): savefig
        (?:^|/)matplotlib/\S+\.py\(\d+\):[ ]
    add_scalars (train.py:12)
        \b(?:add_(?:scalar|histogram|image|figure|text|embedding|video|audio|graph)s?) \(.*\.py:\d+\)
    train.py(12): log_metrics
        (?:log_(?:metrics|images?|histograms?|artifact|everything|step|stats|params|weights|gradients)
        |write_summaries|write_logs?|dump_logs?)$
    $writer.py:40 scalar
        \$(?:writer|event_file_writer|summary_ops_v2)\.py:\d+[ ]
    logging
        ^(?:logging|log|log step|write summaries)$
evaluating
    train.py(80): evaluate
        (?:^|[ :._])(?<!_save_)(?:evaluate|evaluation|evaluate_model|evaluate_epoch|run_evaluation
        |run_eval|eval_model|eval_epoch|eval_step|eval_loop|validate|validate_epoch|validate_model
        |validation|validation_step|validation_epoch|run_validation|test_epoch|test_loop|compute_metrics
        |estimate_loss|(?:check|eval|evaluate|validate|test)_(?:accuracy|perplexity|loss|metrics?)|(?:val
        |valid|validation|dev|test)_(?:epoch|loop|model|one_epoch)|do_eval|evaluate_one_epoch)$
    # A program's own function of this name may be the model that it trains.
    keras/src/backend/tensorflow/trainer.py(500): predict
        (?:^|/)(?:keras|sklearn|xgboost|lightgbm|lightning)/\S+\.py\(\d+\): predict$
    lightning/pytorch/loops/evaluation_loop.py(100): run
        (?:^|/)(?:pytorch_)?lightning/\S*evaluation_loop\.py\(\d+\): run$
preprocessing
    transformers/image_processing_utils.py(60): preprocess
        image_processing\w*\.py\(\d+\): |feature_extraction\w*\.py\(\d+\):[ ]
        |(?:^|/)processing_\w+\.py\(\d+\): __call__
    torchvision/transforms/transforms.py(90): __call__
        (?:^|/)torchvision/transforms/\S+\.py\(\d+\):[ ]
        |(?:^|/)(?:albumentations|kornia/augmentation|imgaug)/\S+\.py\(
    PIL/ImageOps.py(40): fit
        (?:^|/)(?:PIL|skimage|cv2)/\S+\.py\(\d+\): |tokenization_\w+\.py\(\d+\):[ ]
    train.py(33): preprocess_batch
        (?:^|[ :._])(?:preprocess\w*|pre_process\w*|_?augment(?:ation|_\w+)?|apply_transforms?
        |transform_batch|transform_image\w*|decode_(?:jpeg|png|image|batch)\w*|resize_image\w*
        |normali[sz]e_image\w*|random_crop\w*|collate(?:_\w+)?|tokeni[sz]e\w*)$
    preprocess_batch (train.py:33)
        ^(?:preprocess\w*|augment\w*|transform_\w+|collate\w*|tokeni[sz]e\w*) \(
""")
"""Names that begin an activity."""

_BLOCKS = _rules(r"""
waiting_thread
    <built-in method acquire of _thread.lock object at 0x7f>
        <built-in (?:method|function) (?:acquire|wait|sleep|select|poll|kevent|recv(?:_into|from)?|accept
        |get of _queue)\b
    $time sleep
        ^\$?(?:time sleep|lock acquire|_thread\.lock acquire|select (?:select|poll|epoll))$
    _queue.SimpleQueue.get
        (?:_thread\.lock\.acquire|time\.sleep|select\.\w+|_queue\.SimpleQueue\.get)$
    threading.py(637): wait
        (?:^|/|\$)threading\.py[:(]\d+\)?:? (?:wait|join|acquire|_wait_for_tstate_lock)$
    queue.py(154): get
        (?:^|/|\$)queue\.py[:(]\d+\)?:? get$|(?:^|/|\$)selectors\.py[:(]\d+\)?:? select$
    Condition.wait (/usr/lib/python3.11/threading.py:288)
        (?:^|\.)(?:(?:wait|join|_wait_for_tstate_lock) \(.*\bthreading|get \(.*\bqueue
        |select \(.*\bselectors)\.py:\d+\)$
""")
_WAITS = (
    Rule(Purpose.WAITING_DEVICE, SYNCHRONIZING, "cudaStreamSynchronize"),
    *_rules(r"""
# The calling thread waits for those of the backward pass.
backward
    <built-in method run_backward of torch._C._EngineBase object at 0x7f>
        run_backward\b|_engine_run_backward$
waiting_device
    $array.py:600 block_until_ready
        try_to_block|block_until_ready|BlockHostUntilReady|BufferSequencingEvent|BlockUntilReady
        |wait for completion|Await(?:ed)?\b|::[Ww]ait(?:_tensor)?\b
"""),
    *_BLOCKS,
    *_rules(r"""
waiting_device
    torch/cuda/__init__.py(1000): synchronize
        (?:^|/)(?:torch/cuda/__init__|torch/cuda/streams)\.py\(\d+\): synchronize$
        |<built-in .*_cuda_synchronize
"""),
)
_OWN = (
    *_WAITS,
    *_rules(r"""
waiting_storage
    <built-in method read of _io.BufferedReader object at 0x7f>
        <built-in (?:method|function) (?:read\w*|write|flush|fsync)\b(?: of _io\.|>)
collecting
    <built-in function collect>
        <built-in (?:method|function) collect\b
parameter_server
    RecvTensor
        ^RecvTensor\b
"""),
)
"""Names that tell the purpose of an event's own time alone."""


def _any(rules: tuple[Rule, ...]) -> re.Pattern[str]:
    """Return a pattern that matches if any rule does: most names match none, and one search is fast."""
    return re.compile("|".join(f"(?:{rule.pattern})" for rule in rules))


BLOCKS = _any(_BLOCKS)
"""Frames of Python in which a thread sleeps, or waits for another thread, a process, a file or the network.
"""
WAITS = _any(_WAITS)
"""Events whose own time is spent waiting."""
READING = re.compile(
    r"^aten::(?:item|_local_scalar_dense|is_nonzero)$|^np\.asarray\(jax\.Array\)$"
    r"|<built-in method (?:item|tolist) of Tensor"
    r"|\$array\.py:\d+ (?:_value|__float__|__int__|__bool__|__index__|item|tolist|__array__"
    r"|_single_device_array_to_np_array_\w+)$"
    r"|^(?:__float__|item|tolist|_value) \(.*(?:array|_tensor)\.py:\d+\)$|EagerTensor\.numpy"
    r"|^\$ops\.py:\d+ (?:numpy|_numpy)$"
)
"""Calls that take a value from a tensor: with a device they wait for it, on a host alone they do not."""
AWAITING = re.compile(r"^np\.asarray\(jax\.Array\)$")
"""Operators that do hardly anything but wait for XLA's threads, also without a device."""
EXCHANGES = re.compile(r"(?:^|/)(?:torch/distributed|horovod|mpi4py|deepspeed/comm|jax/_src/distributed)\b")
"""Frames in which ranks wait for each other."""
MESSAGES = re.compile(
    r"(?:^|/)multiprocessing/(?:connection|queues|managers|pool|shared_memory)\.py\(\d+\): "
    r"|(?:^|-packages/)(?:ray|zmq|distributed)/\S+\.py\(\d+\): "
)
"""Frames that exchange messages with other processes."""
JOINS = re.compile(r"(?:^|/|\$)threading\.py[:(]\d+\)?:? (?:join|_wait_for_tstate_lock)$")
"""Frames that wait for other threads to end."""
RECOMPUTES = re.compile(
    r"(?:^|/)torch/utils/checkpoint\.py\(\d+\): (?:backward|unpack_hook|inner_unpack|recompute_fn)$"
)
"""Frames that compute activations again."""
MAKES = re.compile(r"torch/nn/(?:modules/\S+|init)\.py.*(?:__init__|reset_parameters|_apply|convert)")
"""Frames that make a module, or move it to a device."""
CALLBACKS = re.compile(
    r"^(?:pure_callback|io_callback|debug_callback|debug_print|host_callback|outside_call)\b"
    r"|xla_(?:ffi_)?(?:partitioned_)?python_\w*callback|^(?:Eager)?PyFunc|^PyFuncStateless"
)
"""Operations of XLA and TensorFlow that call Python."""
TO_DEVICE = re.compile(r"(?i:HtoD|H2D|host ?(?:->|(?:_| )?to(?:_| )?) ?device)")
"""Copies from the host to a device."""
HANDS_OVER = re.compile(r"^(?:(?:Batched)?DevicePut|H2D Dispatch$)")
"""Calls in which JAX makes its own array of one of the host's, and what XLA's threads do for them."""


class Part:
    """One part of the table, to be asked by name.

    Args:
        rules: Its rules.
    """

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self._any = _any(rules)
        self._each = [re.compile(rule.pattern) for rule in rules]
        self.number_of = lru_cache(65536)(self._number_of)

    def _number_of(self, name: str) -> int:
        """Return the place of the first rule for a name, -1 for none."""
        if not self._any.search(name):
            return -1
        return next(place for place, rule in enumerate(self._each) if rule.search(name))

    def purpose_of(self, name: str) -> Purpose:
        """Return the purpose that a name tells."""
        place = self.number_of(name)
        return Purpose.UNKNOWN if place < 0 else self.rules[place].purpose


MODEL_NAMES, STACK_NAMES = Part(MODEL), Part(STACKS)
ACTIVITY_NAMES, OWN_NAMES = Part(ACTIVITIES), Part(_OWN)
