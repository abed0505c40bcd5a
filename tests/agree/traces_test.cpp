// Compares the trace of every rank of a run with the replay of the same Programs. Each stream has
// the same instructions in the same order. Messages have the same bytes and go to the same ranks,
// and no instruction begins before the ones that it waits for have ended. Communicators are called
// for the collectives of the Program, with their bytes, and with the choice between one level over
// all hosts and two.
#include <algorithm>
#include <array>
#include <compare>
#include <cstdlib>
#include <map>
#include <set>

#include "hwprofiles/load.h"
#include "sim/replay/replay.h"
#include "tests/catch.h"
#include "tests/exec/on_ranks.h"
#include "tests/exec/small_run.h"

using namespace meshwright::tests;

namespace {

struct Sent {
  int to = 0;  // world rank
  std::int64_t bytes = 0;
  bool operator==(const Sent&) const = default;
};

// A call of a collective. `bytes` are those of one rank's part.
struct Asked {
  GroupKind group = GroupKind::world;
  InstructionKind kind = InstructionKind::compute;
  std::int64_t bytes = 0;
  int option = 0;  // all_gather: flat; all_reduce: maximum; reduce, broadcast: root
  auto operator<=>(const Asked&) const = default;
};

struct Notes {
  std::vector<Sent> sent;  // between stages
  std::vector<Asked> asked;
};

// Records messages and calls of collectives, and forwards them to the communicator behind it.
class NotingCommunicator final : public Communicator {
 public:
  NotingCommunicator(std::unique_ptr<Communicator> behind, GroupKind kind, std::vector<int> ranks,
                     Notes& notes)
      : behind_(std::move(behind)), kind_(kind), ranks_(std::move(ranks)), notes_(notes) {}
  int rank() const override { return behind_->rank(); }
  int size() const override { return behind_->size(); }
  void all_reduce(void* data, std::int64_t elements, Dtype dtype, bool maximum) override {
    note(InstructionKind::all_reduce, elements * bytes_of(dtype), maximum ? 1 : 0);
    behind_->all_reduce(data, elements, dtype, maximum);
  }
  void all_gather(const void* own, void* all, std::int64_t bytes, bool flat) override {
    note(InstructionKind::all_gather, bytes, flat ? 1 : 0);
    behind_->all_gather(own, all, bytes, flat);
  }
  void reduce_scatter(const void* whole, void* own, std::int64_t elements, Dtype dtype,
                      bool accumulate) override {
    note(InstructionKind::reduce_scatter, elements * bytes_of(dtype));
    behind_->reduce_scatter(whole, own, elements, dtype, accumulate);
  }
  void all_to_all(const void* out, void* in, std::int64_t bytes) override {
    note(InstructionKind::all_to_all, bytes);
    behind_->all_to_all(out, in, bytes);
  }
  void broadcast(void* data, std::int64_t bytes, int root) override {
    note(InstructionKind::broadcast, bytes, root);
    behind_->broadcast(data, bytes, root);
  }
  void reduce(void* data, std::int64_t elements, Dtype dtype, int root) override {
    note(InstructionKind::reduce, elements * bytes_of(dtype), root);
    behind_->reduce(data, elements, dtype, root);
  }
  void gather_apart(void* first, std::int64_t bytes, std::int64_t distance) override {
    note(InstructionKind::all_gather, bytes, 1);
    behind_->gather_apart(first, bytes, distance);
  }
  void reduce_apart(void* first, std::int64_t elements, Dtype dtype,
                    std::int64_t distance) override {
    note(InstructionKind::reduce_scatter, elements * bytes_of(dtype));
    behind_->reduce_apart(first, elements, dtype, distance);
  }
  void barrier() override { behind_->barrier(); }
  Request isend(const void* data, std::int64_t bytes, int to, int tag) override {
    if (kind_ == GroupKind::pipeline)
      notes_.sent.push_back({ranks_[static_cast<std::size_t>(to)], bytes});
    return behind_->isend(data, bytes, to, tag);
  }
  Request irecv(void* data, std::int64_t bytes, int from, int tag) override {
    return behind_->irecv(data, bytes, from, tag);
  }
  bool test(Request request) override { return behind_->test(request); }
  void wait(Request request) override { behind_->wait(request); }

 private:
  void note(InstructionKind kind, std::int64_t bytes, int option = 0) {
    notes_.asked.push_back({kind_, kind, bytes, option});
  }

  const std::unique_ptr<Communicator> behind_;
  const GroupKind kind_;
  const std::vector<int> ranks_;
  Notes& notes_;
};

class NotingWorld final : public World {
 public:
  explicit NotingWorld(World& behind) : behind_(behind) {}
  int rank() const override { return behind_.rank(); }
  int size() const override { return behind_.size(); }
  void* allocate(std::int64_t bytes) override { return behind_.allocate(bytes); }
  std::unique_ptr<Communicator> group(GroupKind kind, std::span<const int> ranks) override {
    return std::make_unique<NotingCommunicator>(
        behind_.group(kind, ranks), kind, std::vector<int>(ranks.begin(), ranks.end()), notes);
  }
  std::int64_t resident_bytes_of_others() const override {
    return behind_.resident_bytes_of_others();
  }
  [[noreturn]] void abandon(int exit_code) override {
    behind_.abandon(exit_code);
    std::abort();
  }

  Notes notes;

 private:
  World& behind_;
};

using Key = std::pair<int, int>;  // task, instruction

const Instruction& instruction_of(const Program& program, const TimelineEntry& entry) {
  const Task& task = program.tasks[static_cast<std::size_t>(entry.task)];
  return program.bodies[static_cast<std::size_t>(task.body)]
      .instructions[static_cast<std::size_t>(entry.instruction)];
}

// The instructions of each stream, in the order in which they began.
using Streams = std::array<std::vector<Key>, stream_count>;

Streams streams_of(std::vector<TimelineEntry> entries, const Program& program) {
  std::ranges::stable_sort(entries, {}, &TimelineEntry::begin);
  Streams streams;
  for (const TimelineEntry& entry : entries)
    streams[static_cast<std::size_t>(instruction_of(program, entry).stream)].push_back(
        {entry.task, entry.instruction});
  return streams;
}

std::string describe_early(const Program& program, const std::vector<TimelineEntry>& entries) {
  const WaitResolver resolve(program);
  std::map<Key, SimTime> end;
  for (const TimelineEntry& entry : entries) end[{entry.task, entry.instruction}] = entry.end;
  for (const TimelineEntry& entry : entries)
    for (const Wait& wait : instruction_of(program, entry).waits) {
      const RunId other = resolve(entry.task, wait);
      const auto found = end.find({other.task, other.instruction});
      if (found != end.end() && entry.begin < found->second)
        return std::to_string(entry.task) + "/" + std::to_string(entry.instruction) +
               " begins before " + std::to_string(other.task) + "/" +
               std::to_string(other.instruction) + " has ended";
    }
  return "";
}

std::vector<Sent> sent_by(const Program& program, const std::vector<TimelineEntry>& entries,
                          const Mesh& mesh, int rank) {
  std::vector<TimelineEntry> sorted = entries;
  std::ranges::stable_sort(sorted, {}, &TimelineEntry::begin);
  std::vector<Sent> sent;
  for (const TimelineEntry& entry : sorted) {
    const Instruction& instruction = instruction_of(program, entry);
    if (instruction.kind != InstructionKind::send) continue;
    const int to =
        mesh.group(GroupKind::pipeline, rank)[static_cast<std::size_t>(instruction.peer)];
    sent.push_back({to, instruction.inputs[0].type.bytes()});
  }
  return sent;
}

// Returns the collectives of a step according to the Program, sorted.
std::vector<Asked> collectives_of(const Program& program, const std::vector<TimelineEntry>& entries,
                                  const Mesh& mesh, int rank) {
  std::vector<Asked> all;
  for (const TimelineEntry& entry : entries) {
    const Instruction& each = instruction_of(program, entry);
    const auto members = static_cast<std::int64_t>(mesh.group(each.group, rank).size());
    Asked asked{each.group, each.kind, each.inputs.empty() ? 0 : each.inputs[0].type.bytes(), 0};
    switch (each.kind) {
      case InstructionKind::all_reduce:
        asked.option = each.maximum ? 1 : 0;
        break;
      case InstructionKind::all_gather:
        asked.option = each.flat ? 1 : 0;
        break;
      case InstructionKind::reduce_scatter:
        if (each.inputs.size() == 1) asked.bytes /= members;
        break;
      case InstructionKind::all_to_all:
        asked.bytes /= members;
        break;
      case InstructionKind::reduce:
      case InstructionKind::broadcast:
        asked.option = each.root;
        break;
      default:
        continue;
    }
    all.push_back(asked);
  }
  std::ranges::sort(all);
  return all;
}

// Returns the plans of small_plans() that have `ranks` ranks. ZeRO-3 plans appear a second time
// with the other gather, and tensor-parallel plans with communication that overlaps with compute,
// in chunks.
std::vector<Plan> plans_on(int ranks, const Model& model) {
  std::vector<Plan> plans;
  for (const Plan& plan : small_plans(model)) {
    if (plan.parallelism.degrees().ranks() != ranks) continue;
    plans.push_back(plan);
    if (plan.parallelism.zero_stage == 3) {
      plans.push_back(plan);
      plans.back().parallelism.hierarchical_gather = !plan.parallelism.hierarchical_gather;
    }
    if (plan.parallelism.tensor == 1) continue;
    plans.push_back(plan);
    plans.back().parallelism.overlap_tensor = true;
    plans.back().parallelism.tensor_chunks = 2;
  }
  return plans;
}

void compare_traces() {
  World& world = test_world();
  const Model model = small_model("gpt");
  std::set<int> gathered_flat;
  for (const Plan& plan : plans_on(world.size(), model)) {
    INFO(describe(plan));
    NotingWorld noting(world);
    SmallRun run(model, plan, noting, true);
    noting.notes = {};
    run.step(1);
    const int stage = run.mesh.coordinates(world.rank()).pipeline;
    const Program& program = run.stages[static_cast<std::size_t>(stage)];
    const std::vector<TimelineEntry>& executed = run.runtime.timeline().entries;

    Cluster cluster;
    cluster.machine = load_machine_file(MESHWRIGHT_SOURCE_DIR "/tests/tools/local.json");
    cluster.processes_per_host = world.size();
    const ReplayResult replayed =
        replay(run.stages, Topology(cluster), {.fold = false, .timeline = true});
    std::vector<TimelineEntry> own;
    for (const TimelineEntry& entry : replayed.timeline.entries)
      if (entry.rank == world.rank()) own.push_back(entry);

    CHECK(streams_of(executed, program) == streams_of(own, program));
    CHECK(noting.notes.sent == sent_by(program, own, run.mesh, world.rank()));
    CHECK(describe_early(program, executed) == "");
    CHECK(describe_early(program, own) == "");

    // In addition to the Program's collectives, the step's end sends values to all ranks.
    std::vector<Asked> asked = noting.notes.asked;
    std::erase_if(asked, [](const Asked& each) { return each.group == GroupKind::world; });
    std::ranges::sort(asked);
    CHECK(asked == collectives_of(program, own, run.mesh, world.rank()));
    for (const Asked& each : asked)
      if (each.kind == InstructionKind::all_gather) gathered_flat.insert(each.option);
  }
  if (world.size() == 4) CHECK(gathered_flat == std::set<int>{0, 1});
}

}  // namespace

TEST_CASE("the trace of every rank is the replay's, stream by stream", "[agree][mpi]") {
  run_on_ranks(compare_traces);
}
