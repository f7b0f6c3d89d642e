"""Activities of the host's threads: loading, preprocessing, compiling, saving, logging, profiling, waiting.

The names of frames, annotations, operators and runtime calls decide, by the rules in the table below.
Everything within the outermost event of an activity belongs to it: a copy made while a checkpoint is written
belongs to the checkpoint. Waiting is kept apart, because it is not work: ``run_backward`` waits for the
thread of the backward pass, ``cudaStreamSynchronize`` for a device, ``acquire`` for another thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from stepscope.attribute.device import SYNCHRONIZING, rows_spans
from stepscope.attribute.evaluations import modules_without_gradients, programs_without_gradients
from stepscope.attribute.named import named, of_names
from stepscope.attribute.phases import Phase, phases
from stepscope.attribute.sampled import Sampled, function_of
from stepscope.attribute.spans import Ints, Spans
from stepscope.trace.model import Kind, Trace, among


class Activity(IntEnum):
    """The purpose of some time of a thread."""

    LOADING = 0
    PROFILING = 1
    COMPILING = 2
    SAVING = 3
    LOGGING = 4
    PREPROCESSING = 5
    EVALUATING = 6


_FILE = r"(?:^|/|\$)"
_FORMATS = (
    "csv|json|ndjson|jsonl|parquet|excel|feather|hdf|hdf5|pickle|sql|html|markdown|latex|netcdf|ipc|avro|zarr"
)
"""Formats into which libraries of tables write them."""

RULES: dict[Activity, tuple[str, ...]] = {
    Activity.PROFILING: (
        r"(?:^|/)torch/(?:profiler|autograd)/profiler\w*\.py\(\d+\): (?:start\w*|stop\w*|__enter__"
        r"|__exit__|step|_transit_action"
        r"|prepare_trace|export_\w+|_?enable\w*|_?disable\w*|toggle_\w+)$",
        rf"{_FILE}profiler\.py[:(]\d+\)?:? (?:start_trace|stop_trace|start_server|_?stop_and_\w+)",
        r"<built-in (?:method|function) (?:_(?:enable|disable)_profiler|_prepare_profiler|start_trace"
        r"|stop_trace)",
        r"ProfilerSession|cu(?:da|pti)ProfilerSt|^Activity Buffer Request$|^Buffer Flush$|^Instrumentation$",
    ),
    Activity.COMPILING: (
        r"\((?:dynamo_timed|compile_time)\)$|^TorchDynamo Cache Lookup$",
        r"(?:^|/)torch/_(?:dynamo|inductor)/(?!eval_frame|external_utils|backends/debugging"
        r"|runtime_wrappers|output_code|utils\.py|cudagraph_trees|runtime|hooks|decorators"
        r"|create_parameter_op)\S+\.py\(",
        # Not vmap, grad and jvp, which run eagerly.
        r"(?:^|/)torch/_functorch/(?:_aot_autograd/(?!runtime_wrappers|utils)|partitioners|compilers)\S*\.py\(",
        r"(?:^|/)triton/compiler/\S+\.py\(\d+\): (?:compile|make_\w+|ast_to_ttir)\b|(?:^"
        r"|/)triton/runtime/(?:jit|autotuner)\.py\(\d+\): (?:_do_compile|compile|bench)",
        r"(?:^|[ :$/])(?:backend_compile|XlaCompile\w*|Xla[A-Z]?\w*Compile|PjRt\w*Compile\w*"
        r"|BackendCompile|CompileToBackend\w*)",
        r"(?:Cpu|Gpu|Tpu|NVPTX|AMDGPU)Compiler::|HloPassPipeline|RunHloPasses|RunBackend|LocalClient::Compile|XlaBuilder",
        r"TfrtCpuClient::Compile|PjRtClient::Compile|CommonPjRtClient::Compile|::CompileAndLoad|::Compile(?:Single|Module)?\b",
        r"trace_to_jaxpr|lower_sharding_computation|lower_jaxpr_to_module|compile_or_get_cached|_pjit_lower|pjit\.lower",
        r"\$?(?:compiler|mlir|partial_eval)\.py[:(]\d+\)?:? (?:backend_compile|compile_or_get_cached"
        r"|lower_\w+|trace_to_\w+)",
        # Calls of what is traced already go through the same modules: only making a new function counts.
        r"(?:^|/)tensorflow/\S*polymorphic_function/(?:trac\w+|polymorphic_function|compiler_ir)\.py\(\d+\): "
        r"(?:_create_concrete_function|_create_implements_attribute|from_\w+_graph)$",
        r"tracing_compil\w+\.py:\d+ _create_concrete_function|^tf\.function-graph_building$"
        r"|(?:^|/)tensorflow/\S*framework/func_graph\.py\(\d+\): func_graph_from_py_func$",
        r"^(?:nvrtc|hiprtc)Compile\w*|^cuModuleLoad\w*|^hipModuleLoad\w*|^cuLibraryLoad\w*",
    ),
    Activity.SAVING: (
        r"(?:^|/)torch/serialization\.py\(\d+\): save$|(?:^"
        r"|/)torch/distributed/checkpoint/\S+\.py\(\d+\): (?:save|async_save)",
        r"^(?!.*load)(?:.*[ :.#/])?(?:save_checkpoint|save_model|save_weights|save_pretrained|save_state"
        r"|_save_checkpoint"
        r"|checkpoint_save|write_checkpoint|saving_checkpoint)\b",
        r"^(?:ss|stepscope)?[./ ]?(?:checkpoint|checkpointing|save checkpoint)$",
        r"(?:^|/)orbax/\S+\.py\(\d+\): save|(?:^|/)safetensors/\S+\.py\(\d+\): save|^(?:\S*/)?SaveV2$"
        r"|MergeV2Checkpoints|SaveTensors",
        r"(?:^|/)tensorflow/python/(?:checkpoint/(?:checkpoint\w*|functional_saver)|training/saver"
        r"|saved_model/save)\.py\(\d+\): (?:_?save\w*|_?write\w*)$",
        r"(?:^|/)keras/\S*(?:saving|hdf5|legacy)\S*\.py\(\d+\): (?:_?save\w*|export)$"
        r"|(?:^|/)h5py/\S+\.py\(\d+\): create_dataset$",
        r"\bsave \((?:.*/)?(?:serialization|saving_api|checkpointer)\.py:\d+\)",
        r"\$(?:serialization|saving_api|checkpointer|checkpoint)\.py:\d+ (?:save|_save|write)\w*",
        r"numpy/lib/\S*npyio\S*\.py\(\d+\): savez?(?:_compressed)?$",
        # What puts any object into bytes: in a loop of training, weights or a state.
        r"^<call of (?:\w+\.)*(?:_?pickle|cPickle|cloudpickle|dill|joblib|msgpack|marshal)"
        r"\.(?:dumps?|packb?)>$|^<call of .*\.tofile>$",
        r"(?:^|/)(?:cloudpickle|dill|joblib|flax)/\S*(?:pickle|_dill|serialization)\S*\.py\(\d+\): "
        r"(?:_?dumps?|to_bytes|msgpack_serialize)$|(?:^|/)pickle\.py\(\d+\): (?:dump|save)$",
    ),
    Activity.LOGGING: (
        rf"{_FILE}logging/__init__\.py\(\d+\): (?:debug|info|warning|error|critical|exception|log|_log)$",
        r"<built-in (?:method|function) print\b|^<call of (?:(?:builtins|rich|pprint)\.)?p?print>$",
        r"^<call of (?:.*\.)?(?:writerows?|to_csv|write(?:lines|_text|_bytes)?)>$"
        r"|(?:^|/)pprint\.py\(\d+\): |(?:^|/)pathlib(?:/\w+)?\.py\(\d+\): write_(?:text|bytes)$",
        # What puts results into files: tables, JSON, pictures, sounds.
        rf"(?:^|/)(?:pandas|polars|pyarrow|fastparquet|openpyxl|xarray|zarr)/\S+\.py\(\d+\): "
        rf"(?:to_(?:{_FORMATS})|(?:write|sink)_(?:{_FORMATS}|table)|save)$",
        r"(?:^|/)(?:json|simplejson)/__init__\.py\(\d+\): dumps?$"
        r"|(?:^|/)yaml/__init__\.py\(\d+\): \w*dump\w*$"
        r"|^<call of (?:\w+\.)*(?:json|simplejson|orjson|ujson|rapidjson|yaml|toml\w*)\.\w*dumps?>$",
        r"(?:^|/)PIL/Image\.py\(\d+\): save$"
        r"|(?:^|/)torchvision/utils\.py\(\d+\): (?:save_image|make_grid)$"
        r"|(?:^|/)(?:imageio|skimage|soundfile|plotly|scipy/io)\S*\.py\(\d+\): "
        r"(?:m?imwrite|m?imsave|write\w*)$"
        r"|^<call of (?:.*\.)?(?:imwrite|imsave|savefig|savetxt|write_(?:png|jpeg|video|image|html))>$"
        r"|numpy/lib/\S*npyio\S*\.py\(\d+\): savetxt$",
        r"(?:^|/)(?:tensorboard|tensorboardX|wandb|mlflow|comet_ml|aim)/\S+\.py\(\d+\): ",
        r"(?:^|/)torch/utils/tensorboard/\S+\.py\(\d+\): (?:add_\w+|flush|close)",
        r"(?:^|/)matplotlib/\S+\.py\(\d+\): ",
        r"\b(?:add_(?:scalar|histogram|image|figure|text|embedding|video|audio|graph)s?) \(.*\.py:\d+\)",
        r"(?:log_(?:metrics|images?|histograms?|artifact|everything|step|stats|params|weights|gradients)|write_summaries"
        r"|write_logs?|dump_logs?)$",
        r"\$(?:writer|event_file_writer|summary_ops_v2)\.py:\d+ ",
        r"^(?:logging|log|log step|write summaries)$",
    ),
    Activity.EVALUATING: (
        r"(?:^|[ :._])(?<!_save_)(?:evaluate|evaluation|evaluate_model|evaluate_epoch|run_evaluation"
        r"|run_eval|eval_model|eval_epoch|eval_step|eval_loop|validate|validate_epoch|validate_model|validation|validation_step"
        r"|validation_epoch|run_validation|test_epoch|test_loop|compute_metrics|predict|estimate_loss"
        r"|(?:check|eval|evaluate|validate|test)_(?:accuracy|perplexity|loss|metrics?)"
        r"|(?:val|valid|validation|dev|test)_(?:epoch|loop|model|one_epoch)|do_eval|evaluate_one_epoch)$",
        r"(?:^|/)(?:pytorch_)?lightning/\S*evaluation_loop\.py\(\d+\): run$",
    ),
    Activity.PREPROCESSING: (
        r"image_processing\w*\.py\(\d+\): |feature_extraction\w*\.py\(\d+\): |(?:^"
        r"|/)processing_\w+\.py\(\d+\): __call__",
        r"(?:^|/)torchvision/transforms/\S+\.py\(\d+\): |(?:^|/)(?:albumentations|kornia/augmentation"
        r"|imgaug)/\S+\.py\(",
        r"(?:^|/)(?:PIL|skimage|cv2)/\S+\.py\(\d+\): |tokenization_\w+\.py\(\d+\): ",
        r"(?:^|[ :._])(?:preprocess\w*|pre_process\w*|_?augment(?:ation|_\w+)?|apply_transforms?"
        r"|transform_batch|transform_image\w*"
        r"|decode_(?:jpeg|png|image|batch)\w*|resize_image\w*|normali[sz]e_image\w*|random_crop\w*|collate(?:_\w+)?|tokeni[sz]e\w*)$",
        r"^(?:preprocess\w*|augment\w*|transform_\w+|collate\w*|tokeni[sz]e\w*) \(",
    ),
}
"""The names that begin an activity; searched for, not matched as a whole. The first match wins."""

_LOADING_FRAMES = re.compile(
    r"(?:^|/)torch/utils/data/(?:dataloader|_utils/\w+)\.py\(\d+\): (?:__next__|_next_data|fetch"
    r"|_try_get_data|_get_data|__iter__)"
    r"|__next__ \((?:.*/)?dataloader\.py:\d+\)|^IteratorGetNext|tf_data"
    r"|iterator_ops\.py[:(]\d+\)?:? (?:__next__|next)"
    r"|\$(?:py_dataset_adapter|data_adapter\w*|\w+_data_adapter|\w+_loader_adapter)\.py:\d+ "
    r"|(?:^|/)keras/src/trainers/data_adapters/\S+\.py[:(]"
)
BLOCKS = re.compile(
    "|".join(
        (
            r"<built-in (?:method|function) (?:acquire|wait|sleep|select|poll|recv|accept|get of _queue)\b",
            r"^\$?(?:time sleep|lock acquire|_thread\.lock acquire|select (?:select|poll|epoll))$",
            r"(?:_thread\.lock\.acquire|time\.sleep|select\.\w+|_queue\.SimpleQueue\.get)$",
            r"(?:^|/|\$)threading\.py[:(]\d+\)?:? (?:wait|join|acquire|_wait_for_tstate_lock)$",
            r"(?:^|/|\$)queue\.py[:(]\d+\)?:? get$|(?:^|/|\$)selectors\.py[:(]\d+\)?:? select$",
        )
    )
)
"""Frames of Python in which a thread sleeps, or waits for another thread, a process, a file or the network.
"""
WAITS = re.compile(
    "|".join(
        (
            SYNCHRONIZING,
            r"run_backward\b|_engine_run_backward$",
            r"try_to_block|block_until_ready|BlockHostUntilReady|BufferSequencingEvent|BlockUntilReady"
            r"|wait for completion|Await(?:ed)?\b|::Wait\b",
            BLOCKS.pattern,
            r"(?:^|/)(?:torch/cuda/__init__|torch/cuda/streams)\.py\(\d+\): synchronize$"
            r"|<built-in .*_cuda_synchronize",
        )
    )
)
"""Events whose own time is spent waiting."""

WRAPPERS = re.compile(
    r"^(?:record_param_comms|hipGraphLaunch|cudaGraphLaunch|cuGraphLaunch|ThunkExecutor::Execute.*|ProfilerStep#.*"
    r"|PyTorch Profiler.*|Torch-Compiled Region.*|CompiledFunction\w*|CommonPjRt.*|PjRt.*"
    r"|TfrtCpu.*::Execute.*"
    r"|KernelAndDevice\w*::Run|Eager(?:Local|Kernel|Remote)?Execute(?:: .*)?"
    r"|(?:partitioned_|stateful_)?FunctionRun"
    r"|PjitFunction.*|.*Executable::Execute.*|ThreadpoolListener.*|.*evaluate_function: .*"
    r"|Call CompiledFxGraph.*"
    r"|## Call CompiledFxGraph.*|nn\.Module: .*|<built-in (?:method|function) (?:apply|run_backward"
    r"|_call_impl)\b.*"
    r"|c10d::.*|autograd::engine.*|Optimizer\.(?:step|zero_grad)#.*|end: \d+.*|Execut(?:e|ion).*|PythonOp.*"
    r"|.*module\.py\(\d+\): (?:_call_impl|_wrapped_call_impl)|Launch\w*Kernel\w*)$"
)
"""Events that only contain others, or that pass work on: they never take the time themselves."""


_HOLDING = (Activity.EVALUATING,)
"""Activities that include others: an evaluation loads its own data."""
_MOST_OPERATORS = 20
"""Operators that starting or stopping a profiler may run."""


class Activities:
    """The activities of a trace's threads.

    Args:
        trace: Any trace.
        sampled: Stacks of its training threads that were sampled beside it.
    """

    def __init__(self, trace: Trace, sampled: Iterable[Sampled] = ()) -> None:
        self._trace = trace
        self._sampled = {each.lane: each for each in sampled}
        self._of_samples: dict[int, Ints] = {}
        self._lanes: dict[int, tuple[Ints, npt.NDArray[np.int8]]] = {}

    @cached_property
    def _of_name(self) -> npt.NDArray[np.int8]:
        return of_names(self._trace, _activity, np.int8, -1)

    @cached_property
    def waits(self) -> npt.NDArray[np.bool_]:
        """Whether each name is that of an event that waits; the last element stands for the name -1."""
        return named(self._trace, WAITS)

    @cached_property
    def _telling(self) -> npt.NDArray[np.int8]:
        """Return the activity of each host row by its own name, -1 = none."""
        trace = self._trace
        found = self._of_name[trace.name]
        telling = among(
            Kind.HOST_OP, Kind.PYTHON_FRAME, Kind.ANNOTATION, Kind.RUNTIME_CALL, Kind.OTHER, Kind.MODULE_SCOPE
        )
        found = np.where(telling[trace.kind] & (trace.device < 0), found, np.int8(-1))
        found[(trace.kind == Kind.DATA_LOADING) & (trace.device < 0)] = Activity.LOADING
        found[(trace.kind == Kind.OVERHEAD) & (trace.device < 0)] = Activity.PROFILING
        found[self.without_gradients] = Activity.EVALUATING
        return np.asarray(found, np.int8)

    @cached_property
    def without_gradients(self) -> Ints:
        """Calls of modules that are recognized as an evaluation by their content; see :mod:`evaluations`."""
        return modules_without_gradients(self._trace)

    @cached_property
    def evaluating_programs(self) -> Ints:
        """Executions of XLA programs that are recognized as an evaluation; see :mod:`evaluations`."""
        return programs_without_gradients(self._trace)

    def outermost(self, lane: int) -> tuple[Ints, npt.NDArray[np.int8]]:
        """Return the outermost rows of activities on a lane and the activity of each, in order of time."""
        if lane not in self._lanes:
            trace = self._trace
            rows = np.flatnonzero((trace.lane == lane) & (self._telling >= 0) & (trace.duration_ns > 0))
            rows = rows[np.argsort(trace.start_ns[rows], kind="stable")]
            rows = rows[~self._around_steps(rows) & ~self._open_profilers(rows)]
            rows = rows[~self._held(lane, rows)]
            end = trace.start_ns[rows] + trace.duration_ns[rows]
            reached = (
                np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]))
                if len(rows)
                else end
            )
            # An annotation may begin in the last instants of the frame that opens it: not within it.
            rows = rows[trace.end_ns[rows] > reached]
            self._lanes[lane] = rows, self._telling[rows]
        return self._lanes[lane]

    def _around_steps(self, rows: Ints) -> npt.NDArray[np.bool_]:
        """Return whether each row contains a whole step: it is a program around the steps, no activity."""
        trace = self._trace
        start, end = np.sort(trace.steps.start_ns), np.sort(trace.steps.end_ns)
        if not len(start):
            return np.zeros(len(rows), bool)
        first = np.searchsorted(start, trace.start_ns[rows], side="left")
        last = np.searchsorted(end, trace.end_ns[rows], side="right") - 1
        return np.asarray(last >= first)

    def _held(self, lane: int, rows: Ints) -> npt.NDArray[np.bool_]:
        """Return whether each row, with all within it, lies in an activity that only sampled stacks show."""
        trace, found = self._trace, Spans.empty()
        for activity in _HOLDING if lane in self._sampled and len(rows) else ():
            found = found.union(self._sampled[lane].where_stack(self._of_stack(lane) == activity))
        within = found.within(trace.start_ns[rows], trace.end_ns[rows])
        return (2 * within > trace.duration_ns[rows]) & ~np.isin(self._telling[rows], _HOLDING)

    def _of_stack(self, lane: int) -> Ints:
        """Return the activity of each sampled stack of a lane, -1 = none."""
        if lane not in self._of_samples:
            sampled, evaluators = self._sampled[lane], self._evaluators(lane)
            self._of_samples[lane] = sampled.of_frames(
                lambda text: (
                    Activity.EVALUATING if evaluators and function_of(text) in evaluators else _activity(text)
                )
            )
        return self._of_samples[lane]

    def _evaluators(self, lane: int) -> frozenset[str]:
        """Return the user's functions that run the model without gradients and do not train."""
        trace = self._trace
        scopes = self.without_gradients[trace.lane[self.without_gradients] == lane]
        if not len(scopes):
            return frozenset()
        row = trace.operators.row[trace.operators.sequence >= 0]
        trained = (phases(trace).phase >= Phase.BACKWARD) & (trace.kind == Kind.HOST_OP)
        trained[row] = True
        mine = np.flatnonzero(trained & (trace.lane == lane))
        return self._sampled[lane].functions_of(rows_spans(trace, scopes), rows_spans(trace, mine))

    def _open_profilers(self, rows: Ints) -> npt.NDArray[np.bool_]:
        """Return whether each row is a start of the profiler within which other work ran.

        The end of a frame that runs when recording begins is never seen: recorders let it last until they
        stop.
        """
        trace, lane = self._trace, self._trace.lane[rows[:1]]
        operators = np.flatnonzero((trace.kind == Kind.HOST_OP) & np.isin(trace.lane, lane))
        start = np.sort(trace.start_ns[operators])
        inside = np.searchsorted(start, trace.end_ns[rows]) - np.searchsorted(start, trace.start_ns[rows])
        return np.asarray((self._telling[rows] == Activity.PROFILING) & (inside > _MOST_OPERATORS))

    def of(self, name: str) -> int:
        """Return the activity that a name begins, -1 for none."""
        return _activity(name)

    def rows(self, lane: int, activity: Activity) -> Ints:
        """Return the outermost rows of one activity on a lane."""
        rows, which = self.outermost(lane)
        found: Ints = rows[which == activity]
        return found

    def spans(self, lane: int, *activities: Activity) -> Spans:
        """Return the time of these activities on a lane; of all of them if none is named."""
        rows, which = self.outermost(lane)
        recorded = rows_spans(self._trace, rows[np.isin(which, activities)] if activities else rows)
        return recorded.union(self.seen(lane, *activities)) if lane in self._sampled else recorded

    def seen(self, lane: int, *activities: Activity) -> Spans:
        """Return the time of activities by sampled stacks alone, if no event names the activity."""
        sampled = self._sampled.get(lane)
        if sampled is None:
            return Spans.empty()
        of_stack = self._of_stack(lane)
        found = Spans.empty()
        for activity in activities or tuple(Activity):
            found = found.union(sampled.where_stack(of_stack == activity))
        return found.minus(rows_spans(self._trace, self.outermost(lane)[0])) if len(found) else found

    def waiting(self, lane: int) -> Spans:
        """Return the time in which a thread waited: own time of waiting events, without operators in them."""
        trace = self._trace
        mine = np.flatnonzero((trace.lane == lane) & self.waits[trace.name] & (trace.device < 0))
        if not len(mine):
            return Spans.empty()
        inner = np.flatnonzero(
            (trace.lane == lane)
            & among(Kind.HOST_OP, Kind.DATA_LOADING)[trace.kind]
            & ~self.waits[trace.name]
            & (trace.device < 0)
        )
        # Where operators fill most of it, the thread did not wait: on a host alone it runs the backward
        # pass itself.
        filled = rows_spans(trace, inner).within(trace.start_ns[mine], trace.end_ns[mine])
        mine = mine[filled <= trace.duration_ns[mine] // 2]
        spans = rows_spans(trace, mine)
        inside = inner[spans.within(trace.start_ns[inner], trace.start_ns[inner] + 1) > 0]
        # An operator around the wait is not within it.
        within = inside[
            spans.within(trace.start_ns[inside], trace.end_ns[inside]) >= trace.duration_ns[inside]
        ]
        return spans.minus(rows_spans(trace, within)) if len(within) else spans


def _activity(name: str) -> int:
    if _LOADING_FRAMES.search(name):
        return Activity.LOADING
    if not _ANY.search(name):
        return -1
    return next((activity for activity, rule in _COMPILED if rule.search(name)), -1)


_COMPILED = [
    (activity, re.compile("|".join(f"(?:{rule})" for rule in rules))) for activity, rules in RULES.items()
]
_ANY = re.compile("|".join(f"(?:{rule})" for rules in RULES.values() for rule in rules))
