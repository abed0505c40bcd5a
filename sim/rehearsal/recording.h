// A recording: what a rank of a training script did in one step, which repeats. A rehearsal
// (tools/python/meshwright/rehearsal) writes it while the script runs on GPUs that are not there.
// The file is one JSON object, format 1:
//
//   format            1
//   script            the script, as it was given
//   versions          of PyTorch and others, by name; may be missing
//   machine           the profile whose GPUs the script saw
//   ranks, per_host   of the whole run, and of a host if there are as many
//   rank              whose step this is
//   notes             which data were made and what was refused, as sentences; may be missing
//   steps             how many steps were `seen` and `recorded`; may be missing
//   step_host_s       seconds of the step on the host, on which no kernel ran
//   batch             what a step of this rank trains on: `samples`, their `tokens` (0 if they have
//                     none), and `replicas`, the ranks that have a batch of their own; may be
//                     missing
//   phases            what the allocator holds: of each `phase` (forward, backward, optimizer)
//                     peak_allocated_bytes and kept_bytes, which it allocated and left; may be
//                     missing
//   state_bytes       of the model's trained parameters and optimizer states; may be missing
//   memory            bytes of PyTorch's allocator: peak_allocated_bytes, peak_reserved_bytes,
//                     allocated_before_step_bytes; capacity_bytes of the GPU; refused_bytes of the
//                     largest request that did not fit, or 0
//   operations        names, such as aten::mm
//   modules           names; may be missing
//   symbols           names of kernels in their library
//   kernels           the distinct ones, as captured models have them: kind, m, n, k, batch,
//                     flops (of all scores, also where `causal`), bytes, dtype, causal, backward
//   groups            the communicators, each a list of ranks of the whole run
//   streams           how many there are; 0 is the default one
//   events            in the order in which the host issued them
//   others            recordings of ranks that pass messages to or from this one, or to or from
//                     those: stages of a pipeline; each with all these keys but `others`; may be
//                     missing
//
// An event has `at`, the microseconds on the host since the step began; `what`; `thread` (0); and
// the index of its operation (`op`), which may be missing. `graphed` says that a CUDA graph
// launched it together with the event before it. By `what`:
//
//   kernel       stream; kernel, or none for a launch that moves next to nothing; symbol and module
//                may be missing; recomputed: whether it repeats a part of the forward pass
//   collective   stream, name, group, bytes as NCCL counts them: of the reduced buffer, of one
//                rank's part of a gathered or scattered one, or of what goes to one peer; peer of a
//                send or receive: the index of the other rank in the group; together: a number
//                that consecutive ones of a stream share which NCCL runs at once; may be missing
//   copy         stream, bytes, direction; waits: whether the host waits until it is done
//   set          stream, bytes
//   record       stream and the event (any number) that marks this point of it
//   wait         stream, and the event whose last mark it waits for
//   host-waits   for: device, or stream (with `stream`), or event (with `event`)
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/fields.h"
#include "models/program/graph/op_table.h"

namespace meshwright::sim {

enum class Recorded : std::uint8_t { kernel, collective, copy, set, record, wait, host_waits };
enum class RecordedCollective : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  send,
  receive
};
constexpr bool runs_on_device(Recorded what) { return what <= Recorded::set; }
constexpr std::size_t recorded_collective_count = 8;
const std::vector<std::string>& recorded_collective_names();  // "all-reduce", ...
enum class CopyDirection : std::uint8_t { to_device, to_host, on_device };
enum class HostWait : std::uint8_t { device, stream, event };

// An event of the host. Indices are -1 where there is none.
struct RecordedEvent {
  double at_s = 0;
  Recorded what = Recorded::kernel;
  RecordedCollective collective = RecordedCollective::all_reduce;
  CopyDirection direction = CopyDirection::to_device;
  HostWait host_waits_for = HostWait::device;
  bool waits = false;       // the host, for a copy
  bool graphed = false;     // launched with the event before it, by a CUDA graph
  bool recomputed = false;  // a kernel of the forward pass, run again in the backward pass
  int op = -1, stream = 0, kernel = -1, symbol = -1, module = -1;
  int group = -1, peer = -1, together = 0;
  std::int64_t event = -1;
  std::int64_t bytes = 0;
};

struct RecordedMemory {
  std::int64_t peak_allocated_bytes = 0, peak_reserved_bytes = 0, allocated_before_step_bytes = 0;
  std::int64_t capacity_bytes = 0, refused_bytes = 0;
};

// The phases of a step, in the order of the file's words.
enum class StepPhase : std::uint8_t { forward, backward, optimizer };
constexpr std::size_t step_phase_count = 3;
const std::vector<std::string>& step_phase_names();  // "forward", ...

// Bytes that tensors asked for: the most in a phase, and what the phase allocated and left.
struct PhaseMemory {
  std::int64_t peak_allocated_bytes = 0, kept_bytes = 0;
};

// The samples and tokens of one rank's step. Samples that are not text have no tokens.
struct RecordedBatch {
  std::int64_t samples = 0, tokens = 0;
  int replicas = 1;  // ranks that have a batch of their own
};

struct RecordedKernel {
  Kernel kernel;     // as it is priced: half of the FLOPs of causal attention
  double flops = 0;  // of all scores
};

struct Recording {
  std::string script, machine;
  std::map<std::string, std::string> versions;
  int ranks = 1, per_host = 1, rank = 0;
  double step_host_s = 0;
  std::optional<RecordedBatch> batch;
  RecordedMemory memory;
  std::optional<std::array<PhaseMemory, step_phase_count>> phases;  // indexed by StepPhase
  std::int64_t state_bytes = 0;                                     // 0: not recorded
  std::vector<std::string> operations, modules, symbols, notes;     // symbols are demangled
  std::vector<RecordedKernel> kernels;
  std::vector<std::vector<int>> groups;
  int streams = 1;
  std::vector<RecordedEvent> events;
  std::vector<Recording> others;  // of other ranks of the same run
};

// Returns whether a text is a recording, by keys that no other file of this program has.
bool is_recording(std::string_view text);

// Reads a recording. Every index in the result is that of an entry. Throws InputError, which names
// the file and the place, if a key is missing, unknown or of another type, or a value impossible.
Recording read_recording(Fields file);

}  // namespace meshwright::sim
