// The narrow interface between the runtime and a device: memory, and one operation at a time. The
// comments of models/program/graph/op.h list the operands of every operation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "exec/backends/streams.h"
#include "exec/optimizer/updater.h"
#include "models/program/graph/op_call.h"

namespace meshwright::exec {

// The addresses of an operation's operands in the backend's memory, in the order of the operation's
// types. The operation adds to outputs marked (+) in op.h, unless the call says that they hold
// nothing yet. It overwrites every other output. A loss's gradient may have the address of the
// logits.
struct OpOperands {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
};

// The position of the calling rank in its tensor and context groups, and scratch memory, which is
// null if the operation needs none.
struct OpContext {
  int tensor_rank = 0;
  int tensor_size = 1;
  void* workspace = nullptr;
  int context_rank = 0;
  // Sequences of the run that come before the micro-batch's first sequence (first_sequence) and
  // before the step's first sequence (step_position).
  std::int64_t first_sequence = 0, step_position = 0;
  // Inside a fused operation, the operands are the rows from first_row on of tensors with
  // whole_rows rows. Elsewhere both are 0: the operands are whole tensors.
  std::int64_t first_row = 0, whole_rows = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;

  // Returns whether the operation is a kernel of this backend with activations of this type. It
  // returns false for collectives (tensor_reduce, sequence_gather, ...), which the runtime gives to
  // a communicator.
  virtual bool supports(Op op, Dtype dtype) const = 0;
  virtual bool computes_in(Precision precision) const = 0;
  virtual std::int64_t workspace_bytes(const OpCall& call) const = 0;
  virtual std::unique_ptr<Updater> make_updater(const StepSettings& training) = 0;

  // Must be called before a step's first operation. `step_position` is the OpContext::step_position
  // of all operations of the step.
  virtual void begin_step(std::int64_t step_position) = 0;
  virtual void run(const OpCall& call, const OpOperands& operands, const OpContext& context) = 0;
  // Copies `bytes` bytes as an operation on the stream in use. Both addresses are in this backend's
  // memory or in host memory that it allocated.
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;

  // Returns when everything issued so far, on all streams, is complete.
  virtual void wait() = 0;

  // Returns the streams, or null if every operation is complete when its call returns.
  virtual Streams* streams() = 0;
  // Returns the object that captures steps, or null if the backend cannot capture a step's work.
  virtual StepCapture* capture() = 0;

  // Returns memory that is at least 64-byte aligned, never null. It is not cleared.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void deallocate(void* memory) = 0;
  // Returns cleared host memory that the device can copy from and to while it computes.
  virtual void* allocate_host(std::int64_t bytes) = 0;
  virtual void deallocate_host(void* memory) = 0;

  // Returns the bytes in use, by any process, of the backend's own memory. Returns 0 if the backend
  // computes in host memory.
  virtual std::int64_t used_bytes() const = 0;
  // Returns whether the backend's memory is also the host's. If not, the host accesses it by read()
  // and write(), which any thread may call. Both are complete when they return, and neither waits
  // for operations that were issued before.
  virtual bool shares_memory_with_host() const = 0;
  virtual void read(void* host, const void* own, std::int64_t bytes) = 0;
  virtual void write(void* own, const void* host, std::int64_t bytes) = 0;
};

// Returns when everything issued to the stream in use is complete. If the backend has no streams,
// waits for all of its work.
void wait_for_stream(Backend& backend);
// Sets `bytes` bytes of the backend's memory to 0, as an operation on the stream in use.
void clear(Backend& backend, void* memory, std::int64_t bytes);

}  // namespace meshwright::exec
