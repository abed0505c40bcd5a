// Reads recordings. A recording holds what one rank of a training script did in one step. A
// rehearsal (tools/python/meshwright/rehearsal) writes it while the script runs without the GPUs
// that it asks for. The file is one JSON object, format 1:
//
//   format            1
//   script            the script, as it was given
//   versions          of PyTorch and others, by name; may be missing
//   machine           the profile whose GPUs the script saw
//   ranks, per_host   of the whole run, and of each full host
//   rank              whose step this is
//   notes             remarks of the rehearsal, as sentences; may be missing
//   steps             how many steps were `seen` and `recorded`; may be missing
//   step_host_s       seconds that the host took for the step, in which no kernel ran
//   batch             what a step of this rank trains on: `samples`, their `tokens` (0 if they have
//                     none), and `replicas`, the ranks that have a batch of their own; may be
//                     missing
//   phases            memory of each `phase` (forward, backward, optimizer):
//                     peak_allocated_bytes, and kept_bytes, which the phase allocated and did not
//                     free; may be missing
//   state_bytes       of the model's trained parameters and optimizer states; may be missing
//   memory            bytes of PyTorch's allocator: peak_allocated_bytes, peak_reserved_bytes,
//                     allocated_before_step_bytes; capacity_bytes of the GPU; refused_bytes of the
//                     largest request that did not fit, or 0
//   operations        names, such as aten::mm
//   modules           names; may be missing
//   symbols           names of kernels in their library
//   kernels           the distinct kernels, as in captured models: kind, m, n, k, batch,
//                     flops (of all scores, also where `causal`), bytes, dtype, causal, backward
//   groups            the communicators, each a list of ranks of the whole run
//   streams           number of streams; stream 0 is the default one
//   events            in the order in which the host issued them
//   others            recordings of ranks that exchange messages with this rank, or with another
//                     one of these: stages of a pipeline; each has all keys except `others`; may be
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
//                that consecutive messages of a stream share if NCCL runs them at once; may be
//                missing
//   copy         stream, bytes, direction; waits: whether the host waits until it is done
//   set          stream, bytes
//   record       stream, and the event (any number) that marks this point of the stream
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
const std::vector<std::string>& recorded_collective_names();  // such as "all-reduce"
enum class CopyDirection : std::uint8_t { to_device, to_host, on_device };
enum class HostWait : std::uint8_t { device, stream, event };

// An event that the host issued. Indices are -1 if they are not given.
struct RecordedEvent {
  double at_s = 0;
  Recorded what = Recorded::kernel;
  RecordedCollective collective = RecordedCollective::all_reduce;
  CopyDirection direction = CopyDirection::to_device;
  HostWait host_waits_for = HostWait::device;
  bool waits = false;    // whether the host waits for a copy
  bool graphed = false;  // whether a CUDA graph launched it together with the event before it
  // Whether a kernel repeats a part of the forward pass in the backward pass.
  bool recomputed = false;
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
const std::vector<std::string>& step_phase_names();  // such as "forward"

// Bytes of tensors: the most in a phase, and what the phase allocated and did not free.
struct PhaseMemory {
  std::int64_t peak_allocated_bytes = 0, kept_bytes = 0;
};

// The samples and tokens of one rank's step. Samples that are not text have no tokens.
struct RecordedBatch {
  std::int64_t samples = 0, tokens = 0;
  int replicas = 1;  // number of ranks that have a batch of their own
};

struct RecordedKernel {
  Kernel kernel;     // the kernel as it is priced, with half of the FLOPs of causal attention
  double flops = 0;  // FLOPs of all scores, as recorded
};

struct Recording {
  std::string script, machine;
  std::map<std::string, std::string> versions;
  int ranks = 1, per_host = 1, rank = 0;
  double step_host_s = 0;
  std::optional<RecordedBatch> batch;
  RecordedMemory memory;
  std::optional<std::array<PhaseMemory, step_phase_count>> phases;  // indexed by StepPhase
  // Bytes of trained parameters and optimizer states; 0 if not recorded.
  std::int64_t state_bytes = 0;
  std::vector<std::string> operations, modules, symbols, notes;  // names; symbols are demangled
  std::vector<RecordedKernel> kernels;
  std::vector<std::vector<int>> groups;
  int streams = 1;
  std::vector<RecordedEvent> events;
  std::vector<Recording> others;  // recordings of other ranks of the same run
};

// Returns whether a text is a recording, by keys that no other file of this program has.
bool is_recording(std::string_view text);

// Reads a recording. Every index in the result is valid or -1. Throws InputError, which names the
// file and the place, if a key is missing, unknown or of another type, or if a value is impossible.
Recording read_recording(Fields file);

}  // namespace meshwright::sim
