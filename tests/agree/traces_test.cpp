// The trace of every rank of a run beside the replay of the same Programs: stream by stream the
// same instructions in the same order, messages of the same bytes to the same ranks, and nothing
// begins before what it waits for has ended.
#include <array>
#include <cstdlib>
#include <map>

#include "hwprofiles/load.h"
#include "sim/replay/replay.h"
#include "tests/catch.h"
#include "tests/exec/on_ranks.h"
#include "tests/exec/small_run.h"

using namespace meshwright;

namespace {

struct Sent {
  int to = 0;  // world rank
  std::int64_t bytes = 0;
  bool operator==(const Sent&) const = default;
};

// Notes what is sent; all else is the business of the group behind it.
class NotingCommunicator final : public Communicator {
 public:
  NotingCommunicator(std::unique_ptr<Communicator> behind, std::vector<int> ranks,
                     std::vector<Sent>& sent)
      : behind_(std::move(behind)), ranks_(std::move(ranks)), sent_(sent) {}
  int rank() const override { return behind_->rank(); }
  int size() const override { return behind_->size(); }
  void all_reduce(void* data, std::int64_t elements, Dtype dtype, bool maximum) override {
    behind_->all_reduce(data, elements, dtype, maximum);
  }
  void all_gather(const void* own, void* all, std::int64_t bytes, bool flat) override {
    behind_->all_gather(own, all, bytes, flat);
  }
  void reduce_scatter(const void* whole, void* own, std::int64_t elements, Dtype dtype,
                      bool accumulate) override {
    behind_->reduce_scatter(whole, own, elements, dtype, accumulate);
  }
  void all_to_all(const void* out, void* in, std::int64_t bytes) override {
    behind_->all_to_all(out, in, bytes);
  }
  void broadcast(void* data, std::int64_t bytes, int root) override {
    behind_->broadcast(data, bytes, root);
  }
  void reduce(void* data, std::int64_t elements, Dtype dtype, int root) override {
    behind_->reduce(data, elements, dtype, root);
  }
  void barrier() override { behind_->barrier(); }
  Request isend(const void* data, std::int64_t bytes, int to, int tag) override {
    sent_.push_back({ranks_[static_cast<std::size_t>(to)], bytes});
    return behind_->isend(data, bytes, to, tag);
  }
  Request irecv(void* data, std::int64_t bytes, int from, int tag) override {
    return behind_->irecv(data, bytes, from, tag);
  }
  bool test(Request request) override { return behind_->test(request); }
  void wait(Request request) override { behind_->wait(request); }

 private:
  const std::unique_ptr<Communicator> behind_;
  const std::vector<int> ranks_;
  std::vector<Sent>& sent_;
};

class NotingWorld final : public World {
 public:
  explicit NotingWorld(World& behind) : behind_(behind) {}
  int rank() const override { return behind_.rank(); }
  int size() const override { return behind_.size(); }
  void* allocate(std::int64_t bytes) override { return behind_.allocate(bytes); }
  std::unique_ptr<Communicator> group(GroupKind kind, std::span<const int> ranks) override {
    std::unique_ptr<Communicator> made = behind_.group(kind, ranks);
    if (kind != GroupKind::pipeline) return made;
    return std::make_unique<NotingCommunicator>(std::move(made),
                                                std::vector<int>(ranks.begin(), ranks.end()), sent);
  }
  std::int64_t resident_bytes_of_others() const override {
    return behind_.resident_bytes_of_others();
  }
  [[noreturn]] void abandon(int exit_code) override {
    behind_.abandon(exit_code);
    std::abort();
  }

  std::vector<Sent> sent;

 private:
  World& behind_;
};

using Key = std::pair<int, int>;  // task, instruction

const Instruction& instruction_of(const Program& program, const TimelineEntry& entry) {
  const Task& task = program.tasks[static_cast<std::size_t>(entry.task)];
  return program.bodies[static_cast<std::size_t>(task.body)]
      .instructions[static_cast<std::size_t>(entry.instruction)];
}

// By stream, in the order in which they began.
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

// Those of small_plans(), and the same with tensor communication beside products, in chunks.
std::vector<Plan> plans_on(int ranks, const Model& model) {
  std::vector<Plan> plans;
  for (const Plan& plan : small_plans(model)) {
    if (plan.parallelism.degrees().ranks() != ranks) continue;
    plans.push_back(plan);
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
  for (const Plan& plan : plans_on(world.size(), model)) {
    INFO(describe(plan));
    NotingWorld noting(world);
    SmallRun run(model, plan, noting, true);
    noting.sent.clear();
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
    CHECK(noting.sent == sent_by(program, own, run.mesh, world.rank()));
    CHECK(describe_early(program, executed) == "");
    CHECK(describe_early(program, own) == "");
  }
}

}  // namespace

TEST_CASE("the trace of every rank is the replay's, stream by stream", "[agree][mpi]") {
  run_on_ranks(compare_traces);
}
