// The memory of one rank: its arena in the backend's memory, its host memory, and the addresses of
// operands and parameters in them.
#pragma once

#include <array>
#include <cstdint>

#include "exec/backends/backend.h"
#include "exec/comm/communicator.h"
#include "exec/runtime/state_view.h"
#include "models/program/mesh.h"
#include "models/program/program.h"

namespace meshwright::exec {

// Elements [begin, begin + count) of a parameter's local tensor that this rank holds, at `data`.
struct HeldWeights {
  StoredArray data;
  std::int64_t begin = 0, count = 0;
};
// Elements [begin, begin + count) of a parameter's working copy that this rank holds, of whatever
// type.
struct HeldCopy {
  void* data = nullptr;
  std::int64_t begin = 0, count = 0;
};

// Returns the operand with the exact values of a bucket: its weights, or the masters of a 16-bit
// copy.
inline const Operand& exact_weights(const Bucket& bucket) {
  return bucket.has_master() ? bucket.master : bucket.weights;
}

// Elements [begin, begin + count) of a parameter's local tensor that this rank updates, and the
// arrays of their states: master, first and second moment, average (null if there is none).
using StoredStates = std::array<StoredArray, 4>;
struct OwnedStates {
  StoredStates data{};
  std::int64_t begin = 0, count = 0;
};

class Arena {
 public:
  // Allocates the arena in the backend's memory, through the world, and host memory if the program
  // has any.
  Arena(const Program& program, const Mesh& mesh, World& world, Backend& backend);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Returns the address of an operand of a task with this slot and window.
  template <typename T = void>
  T* address(const Operand& operand, int slot, int window = 0) const {
    return static_cast<T*>(find(operand, slot, window));
  }
  std::int64_t bytes() const { return bytes_; }

  // Returns whether this rank is among the owners of the bucket, which update it. All ranks own a
  // bucket that has no particular owner.
  bool steps(const Bucket& bucket) const { return bucket.owner.includes(own_); }
  // Returns the first element of the bucket that this rank updates, or 0 if the bucket is not
  // sharded.
  std::int64_t own_begin(const Bucket& bucket) const;
  HeldWeights weights(const StageParameter& member) const;  // the exact ones
  HeldCopy working_copy(const StageParameter& member) const;
  // Returns the address of a persistent buffer, or null for none (-1).
  template <typename T = void>
  T* buffer(int id) const {
    return static_cast<T*>(find(id));
  }
  double scalar(int id) const;  // f64, as the host reads it
  OwnedStates states(const StageParameter& member) const;
  // adafactor: returns the factors of a matrix, in the backend's memory.
  float* factors(const StageParameter& member) const;
  // Returns the states of all elements of a bucket that this rank updates.
  StoredStates own_states(const Bucket& bucket) const;
  // Sets the averages of the weights over the steps to the weights as they are.
  void begin_averages() const;

  // The slice that this rank saves of its part of a bucket, in elements of that part. Ranks that
  // have the same part save a slice each.
  struct Slice {
    std::int64_t begin = 0, count = 0;
  };
  Slice saved_slice(const Bucket& bucket) const;
  // Copies the slices of all buckets to memory that the host reads. The copies are complete when it
  // returns.
  void take_snapshot() const;
  // Returns the memory of this rank's slice of a bucket, state after state, or null if this rank
  // saves nothing of it.
  std::byte* snapshot(const Bucket& bucket) const;

  Backend& backend() const { return backend_; }

 private:
  void* find(const Operand& operand, int slot, int window) const;
  void* find(int id) const;
  void save_factors(const Bucket& bucket, Slice slice, float* to) const;
  HeldCopy held(const StageParameter& member, const Operand& weights) const;

  const Program& program_;
  const Mesh& mesh_;
  Coordinates coordinates_;
  Backend& backend_;
  Owner own_;
  std::int64_t bytes_;
  std::array<int, group_kind_count> index_in_{};  // by GroupKind
  char* arena_;
  // Holds snapshots and offloaded tensors. The backend allocates it instead of the world, because
  // not every stage has it.
  char* host_ = nullptr;
};

}  // namespace meshwright::exec
