// Reads Chakra execution traces of replayed steps with Protocol Buffers, and compares them with the
// timeline and the Programs.
#include "models/program/chakra.h"

#include <et_def.pb.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/replay/stand_ins.h"
#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;
namespace chakra = ChakraProtoMsg;

namespace {

struct ChakraFile {
  chakra::GlobalMetadata metadata;
  std::vector<chakra::Node> nodes;
};

ChakraFile file_of(const std::string& text) {
  ChakraFile file;
  google::protobuf::io::ArrayInputStream in(text.data(), static_cast<int>(text.size()));
  bool ended = false;
  REQUIRE(google::protobuf::util::ParseDelimitedFromZeroCopyStream(&file.metadata, &in, &ended));
  while (true) {
    chakra::Node node;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(&node, &in, &ended)) break;
    file.nodes.push_back(node);
  }
  CHECK(ended);  // the last message was whole
  return file;
}

const chakra::AttributeProto& attribute(const chakra::Node& node, const std::string& name) {
  for (const chakra::AttributeProto& each : node.attr())
    if (each.name() == name) return each;
  FAIL(node.name() << " has no attribute " << name);
  return node.attr(0);
}

std::int64_t number(const chakra::Node& node, const std::string& name) {
  return attribute(node, name).int64_val();
}
int small_number(const chakra::Node& node, const std::string& name) {
  return attribute(node, name).int32_val();
}

const Instruction& instruction_of(const TimelineEntry& entry, const Program& program) {
  return program.bodies[program.tasks[entry.task].body].instructions[entry.instruction];
}

bool is_collective(InstructionKind kind) {
  return kind >= InstructionKind::all_reduce && kind <= InstructionKind::reduce;
}

std::vector<TimelineEntry> entries_of(const Timeline& timeline, int rank) {
  std::vector<TimelineEntry> entries;
  for (const TimelineEntry& entry : timeline.entries)
    if (entry.rank == rank) entries.push_back(entry);
  return entries;
}

SimTime rounded(SimTime time) { return (time + 500'000) / 1'000'000; }

// Checks that the nodes are the entries of the timeline in order, with their times, kinds and
// bytes. A ring shift has two nodes.
void check_nodes(const ChakraFile& file, const std::vector<TimelineEntry>& entries,
                 const Program& program) {
  std::size_t next = 1;  // after the process groups
  std::int64_t bytes = 0, expected_bytes = 0, flops = 0;
  for (const TimelineEntry& entry : entries) {
    const Instruction& instruction = instruction_of(entry, program);
    const bool shift = instruction.kind == InstructionKind::ring_shift;
    for (int i = 0; i < (shift ? 2 : 1); ++i, ++next) {
      REQUIRE(next < file.nodes.size());
      const chakra::Node& node = file.nodes[next];
      CHECK(node.id() == next);
      CHECK(node.name() == instruction_name(instruction, program));
      CHECK(static_cast<SimTime>(node.start_time_micros()) == rounded(entry.begin));
      CHECK(static_cast<SimTime>(node.start_time_micros() + node.duration_micros()) ==
            rounded(entry.end));
      CHECK((node.type() == chakra::COMM_COLL_NODE) == is_collective(instruction.kind));
      if (node.type() == chakra::COMP_NODE) flops += number(node, "num_ops");
      if (node.type() == chakra::COMM_COLL_NODE) bytes += number(node, "comm_size");
    }
    if (is_collective(instruction.kind))
      for (const Operand& each : instruction.inputs) expected_bytes += each.type.bytes();
  }
  CHECK(next == file.nodes.size());
  CHECK(bytes == expected_bytes);
  CHECK(flops > 0);
}

// Checks that every dependency has a lower id, so that there is no cycle, and has ended before. The
// nodes of a stream must form a chain.
void check_dependencies(const ChakraFile& file, const std::vector<TimelineEntry>& entries,
                        const Program& program) {
  std::vector<SimTime> begins = {0}, ends = {0};  // of nodes, the process groups first
  std::vector<int> streams = {-1};
  for (const TimelineEntry& entry : entries) {
    const Instruction& instruction = instruction_of(entry, program);
    for (int i = 0; i < (instruction.kind == InstructionKind::ring_shift ? 2 : 1); ++i) {
      begins.push_back(entry.begin), ends.push_back(entry.end);
      streams.push_back(static_cast<int>(instruction.stream));
    }
  }
  REQUIRE(begins.size() == file.nodes.size());
  std::map<int, std::uint64_t> last_of;
  int without = 0;
  for (std::size_t i = 1; i < file.nodes.size(); ++i) {
    const std::set<std::uint64_t> after(file.nodes[i].data_deps().begin(),
                                        file.nodes[i].data_deps().end());
    CHECK(after.size() == static_cast<std::size_t>(file.nodes[i].data_deps_size()));
    without += after.empty() ? 1 : 0;
    for (const std::uint64_t id : after) {
      REQUIRE(id < i);
      CHECK(ends[id] <= begins[i]);
    }
    const auto last = last_of.find(streams[i]);
    const bool second_of_shift = file.nodes[i].type() == chakra::COMM_RECV_NODE && i > 1 &&
                                 file.nodes[i - 1].type() == chakra::COMM_SEND_NODE &&
                                 streams[i] == streams[i - 1];
    if (last != last_of.end() && !second_of_shift) CHECK(after.contains(last->second));
    last_of[streams[i]] = i;
  }
  CHECK(without >= 1);
  CHECK(without <= stream_count);
}

struct MessageKey {
  int from = 0, to = 0, tag = 0;
  auto operator<=>(const MessageKey&) const = default;
};

// Checks the traces of all ranks against each other. What one rank sends another receives once,
// with the same number of bytes. A group has the same members in the traces of all of them.
class Crossing {
 public:
  void add(const ChakraFile& file, int rank, int ranks) {
    const auto& groups = file.nodes[0];
    CHECK(groups.type() == chakra::METADATA_NODE);
    const std::string text = groups.inputs().values();
    REQUIRE(text.size() > 4);
    const auto list = nlohmann::json::parse(text.substr(2, text.size() - 4));
    std::set<std::string> known;
    for (const auto& each : list) {
      std::vector<int> members = each["ranks"];
      const std::string name = each["pg_name"];
      CHECK(known.insert(name).second);
      CHECK((name == "0") == members.empty());
      if (!members.empty()) CHECK(std::ranges::count(members, rank) == 1);
      CHECK(groups_.emplace(name, members).first->second == members);
      members_[name].insert(rank);
    }
    for (const chakra::Node& node : file.nodes) {
      if (node.type() == chakra::COMM_COLL_NODE) {
        const std::string group = attribute(node, "pg_name").string_val();
        CHECK(known.contains(group));
        collectives_[group][rank].push_back({number(node, "comm_type"), number(node, "comm_size")});
      }
      if (node.type() != chakra::COMM_SEND_NODE && node.type() != chakra::COMM_RECV_NODE) continue;
      const bool sends = node.type() == chakra::COMM_SEND_NODE;
      const MessageKey key{small_number(node, "comm_src"), small_number(node, "comm_dst"),
                           small_number(node, "comm_tag")};
      CHECK((sends ? key.from : key.to) == rank);
      CHECK(key.from < ranks);
      CHECK(key.to < ranks);
      CHECK((sends ? sent_ : received_).emplace(key, number(node, "comm_size")).second);
    }
  }

  void check(int ranks) const {
    CHECK(sent_ == received_);
    for (const auto& [group, of_ranks] : collectives_) {
      const std::vector<int>& members = groups_.at(group);
      CHECK(of_ranks.size() ==
            (members.empty() ? static_cast<std::size_t>(ranks) : members.size()));
      for (const auto& [rank, list] : of_ranks)
        CHECK(list.size() == of_ranks.begin()->second.size());
    }
  }
  std::size_t messages() const { return sent_.size(); }
  std::size_t groups() const { return groups_.size(); }

 private:
  std::map<MessageKey, std::int64_t> sent_, received_;
  std::map<std::string, std::vector<int>> groups_;
  std::map<std::string, std::set<int>> members_;
  std::map<std::string, std::map<int, std::vector<std::pair<std::int64_t, std::int64_t>>>>
      collectives_;
};

void check_step(const Compiled& compiled, const Cluster& cluster) {
  Timeline timeline;
  predict(compiled, cluster, {.timeline = &timeline});
  const Mesh mesh = compiled.stages.front().settings->mesh();
  const std::vector<int> stands = stand_ins(compiled.stages, cluster);
  REQUIRE(std::ssize(stands) == mesh.ranks());
  Crossing crossing;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    INFO("rank " << rank);
    const Program& program = compiled.stages[mesh.coordinates(rank).pipeline];
    const std::vector<TimelineEntry> entries = entries_of(timeline, stands[rank]);
    REQUIRE(!entries.empty());
    const ChakraFile file = file_of(to_chakra(entries, rank, compiled.stages));
    CHECK(file.metadata.version() == "0.0.4");
    check_nodes(file, entries, program);
    check_dependencies(file, entries, program);
    crossing.add(file, rank, mesh.ranks());
  }
  crossing.check(mesh.ranks());
  const Parallelism& parallelism = compiled.plan.parallelism;
  CHECK((crossing.messages() > 0) == (parallelism.pipeline > 1 || parallelism.context > 1));
  CHECK(crossing.groups() > 0);
}

}  // namespace

TEST_CASE("a Chakra trace has the timeline's instructions, times, bytes and order", "[chakra]") {
  const MachineCase machine = machine_cases().front();
  const Cluster cluster = machine.cluster();
  int turn = 0;
  for (const PlanCase& each : plans_for(cluster.ranks())) {
    if (++turn % 5 != 0) continue;
    INFO(each.name);
    check_step(compiled_for(small_model(), each.plan, cluster), cluster);
  }
  CHECK(turn > 20);
}

TEST_CASE("shifts in a ring and copies to the host have nodes too", "[chakra]") {
  const Cluster cluster = machine_cases().front().cluster();
  Plan plan;
  plan.training.micro_batch = 1;
  plan.training.global_batch = 16;
  plan.training.sequence_length = 128;
  plan.training.precision = Precision::fp16;
  plan.parallelism.context = 4;
  plan.parallelism.data = 2;
  const auto nodes = [&](const Plan& of, chakra::NodeType type) {
    const Compiled compiled = compiled_for(small_model(), of, cluster);
    check_step(compiled, cluster);
    Timeline timeline;
    predict(compiled, cluster, {.timeline = &timeline});
    const ChakraFile file = file_of(to_chakra(entries_of(timeline, 0), 0, compiled.stages));
    return std::ranges::count(file.nodes, type, &chakra::Node::type);
  };
  CHECK(nodes(plan, chakra::COMM_SEND_NODE) > 0);
  CHECK(nodes(plan, chakra::COMM_SEND_NODE) == nodes(plan, chakra::COMM_RECV_NODE));
  plan.training.global_batch = 64;  // eight micro-batches, of which some are away at a time
  plan.parallelism.context = 1;
  plan.parallelism.data = 8;
  plan.parallelism.schedule = ScheduleKind::gpipe;
  plan.training.recompute = Recompute::full;
  plan.parallelism.offload = Offload::activations;
  CHECK(nodes(plan, chakra::MEM_STORE_NODE) > 0);
  CHECK(nodes(plan, chakra::MEM_STORE_NODE) == nodes(plan, chakra::MEM_LOAD_NODE));
}

TEST_CASE("where ranks differ, each has the times of its own class", "[chakra]") {
  Cluster cluster = machine_cases().front().cluster();
  Faults::SlowRanks slow;
  slow.rank = 3, slow.factor = 2;
  cluster.faults.slow_ranks.push_back(slow);
  for (const PlanCase& each : plans_for(cluster.ranks()))
    if (each.plan.parallelism.pipeline == 2 && each.plan.parallelism.tensor == 2) {
      INFO(each.name);
      const Compiled compiled = compiled_for(small_model(), each.plan, cluster);
      const std::vector<int> stands = stand_ins(compiled.stages, cluster);
      CHECK(std::set<int>(stands.begin(), stands.end()).size() > 2);
      check_step(compiled, cluster);
      return;
    }
  FAIL("no such plan");
}

TEST_CASE("in a Chakra trace of several steps, each step waits for the one before", "[chakra]") {
  const Cluster cluster = machine_cases().front().cluster();
  const Compiled compiled =
      compiled_for(small_model(), plans_for(cluster.ranks()).back().plan, cluster);
  Timeline timeline;
  const Prediction prediction = predict(compiled, cluster, {.timeline = &timeline});
  std::vector<TimelineEntry> entries = entries_of(timeline, 0);
  const std::size_t once = file_of(to_chakra(entries, 0, compiled.stages)).nodes.size() - 1;
  const std::size_t count = entries.size();
  for (std::size_t i = 0; i < count; ++i) {
    TimelineEntry entry = entries[i];
    entry.begin += prediction.step_time, entry.end += prediction.step_time;
    entries.push_back(entry);
  }
  const ChakraFile file = file_of(to_chakra(entries, 0, compiled.stages));
  REQUIRE(file.nodes.size() == 1 + 2 * once);
  for (std::size_t i = 1 + once; i < file.nodes.size(); ++i)
    CHECK(file.nodes[i].data_deps_size() > 0);
  for (const std::uint64_t id : file.nodes[1 + once].data_deps()) CHECK(id <= once);
}
