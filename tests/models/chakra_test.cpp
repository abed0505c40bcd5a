// Reads back execution traces of invented times: they have every instruction in list order, after
// those that it waits for. tests/sim/chakra_test.cpp compares traces of simulated steps.
#include "models/program/chakra.h"

#include <et_def.pb.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <map>

#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

// Returns a timeline in which one instruction follows the other, each of three microseconds.
std::vector<TimelineEntry> in_turn(const Program& program) {
  std::vector<TimelineEntry> entries;
  SimTime now = 0;
  for (std::size_t task = 0; task < program.tasks.size(); ++task) {
    const auto& instructions = program.bodies[program.tasks[task].body].instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      if (!runs(instructions[i], program.tasks[task])) continue;
      entries.push_back({0, static_cast<int>(task), static_cast<int>(i), now, now + 3 * 1'000'000});
      now = entries.back().end;
    }
  }
  return entries;
}

std::vector<ChakraProtoMsg::Node> nodes_of(const std::string& text) {
  google::protobuf::io::ArrayInputStream in(text.data(), static_cast<int>(text.size()));
  const auto read = [&](auto& message) {
    bool ended = false;
    return google::protobuf::util::ParseDelimitedFromZeroCopyStream(&message, &in, &ended);
  };
  ChakraProtoMsg::GlobalMetadata metadata;
  REQUIRE(read(metadata));
  std::vector<ChakraProtoMsg::Node> nodes;
  while (true) {
    ChakraProtoMsg::Node node;  // a new one, because reading adds to the content of a message
    if (!read(node)) return nodes;
    nodes.push_back(node);
  }
}

const ChakraProtoMsg::AttributeProto& attribute(const ChakraProtoMsg::Node& node,
                                                const std::string& name) {
  for (const auto& each : node.attr())
    if (each.name() == name) return each;
  FAIL("no attribute " << name);
  return node.attr(0);
}

// Returns the attribute `name` as an integer, whichever kind of integer it has in the node.
std::int64_t number(const ChakraProtoMsg::Node& node, const std::string& name) {
  const ChakraProtoMsg::AttributeProto& found = attribute(node, name);
  return found.has_int64_val()   ? found.int64_val()
         : found.has_int32_val() ? found.int32_val()
                                 : static_cast<std::int64_t>(found.uint64_val());
}

std::int64_t bytes_of_all(const std::vector<Operand>& operands) {
  std::int64_t bytes = 0;
  for (const Operand& each : operands) bytes += each.type.bytes();
  return bytes;
}

void check_message(const ChakraProtoMsg::Node& node, bool sends, int from, int to,
                   std::int64_t bytes) {
  CHECK(node.type() == (sends ? ChakraProtoMsg::COMM_SEND_NODE : ChakraProtoMsg::COMM_RECV_NODE));
  CHECK(number(node, "comm_src") == from);
  CHECK(number(node, "comm_dst") == to);
  CHECK(number(node, "comm_size") == bytes);
}

// Checks that a node of a trace describes its instruction.
void check_node(const ChakraProtoMsg::Node& node, const Instruction& instruction, int rank,
                const Mesh& mesh) {
  CHECK_FALSE(attribute(node, "is_cpu_op").bool_val());
  const Coordinates own = mesh.coordinates(rank);
  const bool messages =
      instruction.kind == InstructionKind::send || instruction.kind == InstructionKind::recv;
  const int peer = messages ? mesh.rank({instruction.peer, own.tensor, own.rdp}) : -1;
  switch (instruction.kind) {
    case InstructionKind::send:
      return check_message(node, true, rank, peer, bytes_of_all(instruction.inputs));
    case InstructionKind::recv:
      return check_message(node, false, peer, rank, bytes_of_all(instruction.outputs));
    case InstructionKind::ring_shift: {
      const std::vector<int> group = mesh.group(instruction.group, rank);
      const std::size_t index = mesh.index_in(instruction.group, rank);
      return check_message(node, true, rank, group[(index + 1) % group.size()],
                           bytes_of_all(instruction.inputs));
    }
    case InstructionKind::copy_in:
      CHECK(node.type() == ChakraProtoMsg::MEM_LOAD_NODE);
      return;
    case InstructionKind::copy_out:
      CHECK(node.type() == ChakraProtoMsg::MEM_STORE_NODE);
      return;
    case InstructionKind::compute:
    case InstructionKind::load_input:
    case InstructionKind::optimizer_step:
      CHECK(node.type() == ChakraProtoMsg::COMP_NODE);
      CHECK(number(node, "num_ops") >= 0);
      if (instruction.kind == InstructionKind::load_input)
        CHECK(number(node, "tensor_size") == bytes_of_all(instruction.outputs));
      return;
    default:
      CHECK(node.type() == ChakraProtoMsg::COMM_COLL_NODE);
      CHECK(number(node, "comm_size") == bytes_of_all(instruction.inputs));
  }
}

}  // namespace

TEST_CASE("an execution trace has every instruction after those that it waits for",
          "[models][chakra]") {
  const Model model = small_model("gpt");
  for (const SmallDegrees degrees :
       {SmallDegrees{.pipeline = 2, .tensor = 2, .data = 2, .zero_stage = 1},
        SmallDegrees{.data = 2, .zero_stage = 3}, SmallDegrees{.data = 1, .context = 2}}) {
    const std::vector<Program> stages = lower_small(model, small_plan(model, degrees));
    const Mesh mesh = stages.front().settings->mesh();
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const Program& program = stages[mesh.coordinates(rank).pipeline];
      const std::vector<TimelineEntry> entries = in_turn(program);
      const auto nodes = nodes_of(to_chakra(entries, rank, stages));
      std::map<RunId, std::uint64_t> last_node;
      const WaitResolver resolve(program);
      std::size_t next = 1;
      for (const TimelineEntry& entry : entries) {
        const Instruction& instruction =
            program.bodies[program.tasks[entry.task].body].instructions[entry.instruction];
        REQUIRE(next < nodes.size());
        const ChakraProtoMsg::Node& node = nodes[next];
        CHECK(node.id() == next);
        CHECK(node.duration_micros() == 3);
        check_node(node, instruction, rank, mesh);
        for (const std::uint64_t id : node.data_deps()) CHECK(id < next);
        for (const Wait& wait : instruction.waits)
          if (const auto found = last_node.find(resolve(entry.task, wait));
              found != last_node.end())
            CHECK(std::ranges::count(node.data_deps(), found->second) == 1);
        next += instruction.kind == InstructionKind::ring_shift ? 2 : 1;
        last_node[{entry.task, entry.instruction}] = next - 1;
      }
      CHECK(next == nodes.size());
    }
  }
}
