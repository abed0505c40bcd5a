// The parameters of a run as whole tensors, however they are split. It initialises, gathers, sets
// and hashes them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "exec/comm/communicator.h"
#include "exec/core/thread_pool.h"
#include "exec/runtime/arena.h"
#include "exec/runtime/parameter_runs.h"
#include "models/program/program.h"

namespace meshwright::exec {

class Parameters {
 public:
  // `everybody` is the group of all ranks, on host memory. All references must outlive this object.
  Parameters(const std::vector<Program>& stages, const Mesh& mesh, Communicator& everybody,
             const Arena& memory);

  void initialise(std::uint64_t seed, int layers, ThreadPool& pool);

  // Calls `on_rank_0` on rank 0 for each parameter once, in order of names, unsplit and unpadded.
  // The span is valid during the call. Every rank calls gather().
  template <typename Real>
  using VisitorOf = std::function<void(const Parameter& parameter, std::span<const Real> values)>;
  using Visitor = VisitorOf<float>;
  void gather(const Visitor& on_rank_0) const { gather_as(on_rank_0); }
  // The same in fp64, for runs in fp64.
  void gather_fp64(const VisitorOf<double>& on_rank_0) const { gather_as(on_rank_0); }

  // Sets this rank's part of an unsplit, unpadded tensor, in runs in fp64 from doubles. Does
  // nothing if the rank holds none of it.
  template <typename Real = float>
  void set(std::string_view name, std::span<const std::type_identity_t<Real>> values);

  // Returns the SHA-256 of the unsplit fp32 parameters in order of names, or an empty string on
  // ranks other than 0.
  std::string sha256() const;

 private:
  struct Entry {
    int stage = 0;
    int index = 0;  // into Program::parameters
  };
  const StageParameter& member(const Entry& entry) const;
  template <typename ValuesOf>
  void copy_rounded(const StageParameter& member, ThreadPool& pool,
                    const ValuesOf& values_of) const;
  std::vector<int> holders(const Entry& entry, PartOfCut part) const;
  template <typename Real>
  void gather_as(const VisitorOf<Real>& on_rank_0) const;
  template <typename Real>
  void send_part(const Entry& entry, PartOfCut part) const;
  template <typename Real>
  void receive_part(const Entry& entry, PartOfCut part, std::vector<Real>& whole) const;

  const std::vector<Program>& stages_;
  const Mesh& mesh_;
  Communicator& everybody_;
  const Arena& memory_;
  Coordinates own_;
  std::vector<Entry> by_name_;
};

}  // namespace meshwright::exec
