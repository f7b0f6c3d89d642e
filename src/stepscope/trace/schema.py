"""The messages of TensorFlow and XLA that profiles are made of, as protobuf classes in a pool of their own.

The few fields that are read are declared here, as ``stepscope.protos`` says. Text is declared as bytes,
because a bad byte in one node's name must not make the whole profile unreadable; see :func:`text`. A map is a
repeated entry with ``key`` and ``value``, as on the wire.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from stepscope.protos import classes

_MESSAGES = """
GraphDef: node 1 NodeDef*
NodeDef: name 1 bytes, op 2 bytes, input 3 bytes*, device 4 bytes, attr 5 AttrEntry*
AttrEntry: key 1 bytes, value 2 AttrValue
AttrValue: s 2 bytes, shape 7 TensorShape, list 1 ListValue
ListValue: shape 7 TensorShape*
TensorShape: dim 2 Dim*, unknown_rank 3 bool
Dim: size 1 int64

RunMetadata: step_stats 1 StepStats
StepStats: dev_stats 1 DeviceStepStats*
DeviceStepStats: device 1 bytes, node_stats 2 NodeExecStats*, thread_names 3 ThreadName*
ThreadName: key 1 uint32, value 2 bytes
NodeExecStats: node_name 1 bytes, all_start_micros 2 int64, op_start_rel_micros 3 int64, op_end_rel_micros \
4 int64, all_end_rel_micros 5 int64, memory 6 AllocatorMemoryUsed*, output 7 NodeOutput*, timeline_label 8 \
bytes, scheduled_micros 9 int64, thread_id 10 uint32, memory_stats 12 MemoryStats, all_start_nanos 13 \
int64, op_start_rel_nanos 14 int64, op_end_rel_nanos 15 int64, all_end_rel_nanos 16 int64, scheduled_nanos \
17 int64
AllocatorMemoryUsed: allocator_name 1 bytes, total_bytes 2 int64, peak_bytes 3 int64, live_bytes 4 int64, \
allocator_bytes_in_use 5 int64, allocation_records 6 AllocationRecord*
AllocationRecord: alloc_micros 1 int64, alloc_bytes 2 int64
NodeOutput: slot 1 int32, tensor_description 3 TensorDescription
TensorDescription: dtype 1 int32, shape 2 TensorShape, allocation_description 4 AllocationDescription
AllocationDescription: requested_bytes 1 int64, allocated_bytes 2 int64, allocator_name 3 bytes, ptr 6 \
uint64
MemoryStats: temp_memory_size 1 int64, persistent_memory_size 3 int64

OpLog: log_entries 1 OpLogEntry*, id_to_string 2 IdEntry*
OpLogEntry: name 1 bytes, float_ops 2 int64, types 3 bytes*, code_def 4 CodeDef
CodeDef: traces 1 CodeTrace*
CodeTrace: file 1 bytes, lineno 2 int32, function 3 bytes, func_start_line 5 int32, file_id 6 int64, \
function_id 7 int64
IdEntry: key 1 int64, value 2 bytes

Profile: nodes 1 NodeEntry*, has_trace 2 bool, steps 3 int64*, id_to_string 4 IdEntry*, \
miss_accelerator_stream 5 bool
NodeEntry: key 1 int64, value 2 ProfileNode
ProfileNode: name 1 bytes, inputs 2 IndexEntry*, shape 4 int64*, op_types 5 bytes*, canonical_device 6 \
bytes, host_device 7 bytes, float_ops 8 int64, op 9 bytes, trace 10 CodeDef, attrs 11 AttrEntry*, execs 12 \
ExecEntry*, id 13 int64, src_output_index 14 SourceEntry*, output_shapes 15 TupleEntry*
IndexEntry: key 1 int32, value 2 int64
SourceEntry: key 1 int64, value 2 int32
TupleEntry: key 1 int32, value 2 Tuple
Tuple: int64_values 1 int64*
ExecEntry: key 1 int64, value 2 Exec
Exec: run_count 1 int64, all_start_micros 2 int64, latest_end_micros 3 int64, accelerator_execs 4 \
ExecTimeEntry*, cpu_execs 5 ExecTimeEntry*, devices 6 bytes*, memory_execs 7 ExecMemory*, allocations 11 \
AllocationRecord*
ExecTimeEntry: key 1 bytes, value 2 ExecTime
ExecTime: times 1 Tuple*
HloProto: hlo_module 1 HloModule
HloModule: name 1 bytes, computations 3 HloComputation*, stack_frame_index 17 StackFrameIndex
HloComputation: name 1 bytes, instructions 2 HloInstruction*, id 5 int64
HloInstruction: name 1 bytes, opcode 2 bytes, shape 3 HloShape, metadata 7 OpMetadata, \
convolution_dimension_numbers 16 ConvolutionDimensions, custom_call_target 28 bytes, \
dot_dimension_numbers 30 DotDimensions, id 35 int64, operand_ids 36 int64*, \
called_computation_ids 38 int64*, backend_config 43 bytes
HloShape: element_type 2 int32, dimensions 3 int64*, tuple_shapes 4 HloShape*
OpMetadata: op_name 2 bytes, source_file 3 bytes, source_line 4 int32, stack_frame_id 15 int32
DotDimensions: lhs_contracting_dimensions 1 int64*
ConvolutionDimensions: kernel_input_feature_dimension 3 int64, kernel_spatial_dimensions 6 int64*
StackFrameIndex: file_names 1 bytes*, function_names 2 bytes*, file_locations 3 FileLocation*, \
stack_frames 4 StackFrame*
FileLocation: file_name_id 1 int32, function_name_id 2 int32, line 3 int32
StackFrame: file_location_id 1 int32, parent_frame_id 2 int32
XPlane: id 1 int64, name 2 bytes, event_metadata 4 XEventEntry*, stat_metadata 5 XStatEntry*, stats 6 XStat*
XEventEntry: key 1 int64, value 2 XEventMetadata
XEventMetadata: name 2 bytes, display_name 4 bytes, stats 5 XStat*
XStatEntry: key 1 int64, value 2 XStatMetadata
XStatMetadata: id 1 int64, name 2 bytes
XStat: metadata_id 1 int64, double_value 2 double?, uint64_value 3 uint64?, int64_value 4 int64?, \
str_value 5 bytes?, bytes_value 6 bytes?, ref_value 7 uint64?
XLine: name 2 bytes, timestamp_ns 3 int64, display_name 11 bytes

ExecMemory: memory_micros 1 int64, accelerator_persistent_bytes 5 int64, requested_bytes 6 int64, \
peak_bytes 7 int64, residual_bytes 8 int64, output_bytes 9 int64, allocator_bytes_in_use 10 int64
"""
"""Field numbers as in TensorFlow 2.15 (graph.proto, step_stats.proto, tfprof_log.proto); HLO as in XLA
(hlo.proto, xla_data.proto); XPlane without the events of its lines (xplane.proto)."""


@cache
def message(name: str) -> Any:
    """Return the protobuf class of a declared message, such as ``"RunMetadata"``."""
    return classes("stepscope.tensorflow", _MESSAGES)(name)


def text(raw: bytes) -> str:
    """Return a name as text; bytes that are not UTF-8 survive as lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")
