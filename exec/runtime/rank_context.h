// Holds what every part of the runtime knows of the rank that it runs on: its Program, its position
// in the mesh, its memory, and the groups that it is a member of.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/backends/backend.h"
#include "exec/comm/communicator.h"
#include "exec/runtime/arena.h"
#include "models/program/mesh.h"
#include "models/program/program.h"
#include "models/program/step_settings.h"

namespace meshwright::exec {

struct RankContext {
  // Allocates the memory and makes the groups. `stages` are the Programs of all stages. Every rank
  // of `world` calls it at the same time. The arguments must outlive it. Throws InputError or
  // NotSupportedYet for what the backend cannot run.
  RankContext(const std::vector<Program>& all_stages, World& its_world, Backend& its_backend);

  Communicator& group(GroupKind kind) const { return *groups.at(kind); }
  int context_rank() const { return own.rdp % mesh.degrees().context; }
  // Issues what follows to a stream of the device, if it has streams.
  void use(Stream stream) const {
    if (streams != nullptr) streams->use(static_cast<int>(stream));
  }
  const Instruction& instruction(const RunId& run) const {
    return program.bodies[program.tasks[run.task].body].instructions[run.instruction];
  }
  // Returns a sentence for messages to the user that says which instruction it is.
  std::string describe(const RunId& run) const;
  OpContext op_context() const { return {own.tensor, mesh.degrees().tensor, scratch.get()}; }

  const std::vector<Program>& stages;
  const StepSettings& training;
  const Mesh mesh;
  World& world;
  Backend& backend;
  Streams* const streams;  // null: every operation is complete when its call returns
  const Coordinates own;
  const Program& program;  // this rank's stage
  std::int64_t scratch_bytes = 0;

 private:
  struct Deallocate {
    Backend* backend;
    void operator()(void* memory) const { backend->deallocate(memory); }
  };
  using Scratch = std::unique_ptr<void, Deallocate>;
  void check_supported_here() const;
  Scratch reserve_scratch();
  void make_groups();

 public:
  Scratch scratch;  // the operations'; null: none needs any
  Arena memory;
  std::unique_ptr<Communicator> everybody;  // on host memory
  std::map<GroupKind, std::unique_ptr<Communicator>> groups;
  std::unique_ptr<Communicator> stages_back;  // for messages of chunks that go back
};

}  // namespace meshwright::exec
