#include "models/program/chakra.h"

#include <et_def.pb.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "models/core/error.h"
#include "models/core/json.h"
#include "models/program/graph/op_table.h"
#include "models/program/step_work.h"

namespace meshwright::program {

namespace {

namespace chakra = ChakraProtoMsg;

std::uint64_t microseconds(SimTime time) {
  return static_cast<std::uint64_t>((time + 500'000) / 1'000'000);
}

// Adds an int64 attribute. Chakra's readers take most numbers as int64, but ranks and tags as
// int32, which add_rank() adds.
void add_number(chakra::Node& node, const char* name, std::int64_t value) {
  chakra::AttributeProto& attribute = *node.add_attr();
  attribute.set_name(name);
  attribute.set_int64_val(value);
}

void add_rank(chakra::Node& node, const char* name, std::int64_t value) {
  chakra::AttributeProto& attribute = *node.add_attr();
  attribute.set_name(name);
  attribute.set_int32_val(static_cast<std::int32_t>(value));
}

void add_tensor_size(chakra::Node& node, std::int64_t bytes) {
  chakra::AttributeProto& attribute = *node.add_attr();
  attribute.set_name("tensor_size");
  attribute.set_uint64_val(static_cast<std::uint64_t>(bytes));
}

std::optional<chakra::CollectiveCommType> collective_type(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::all_reduce:
      return chakra::ALL_REDUCE;
    case InstructionKind::all_gather:
      return chakra::ALL_GATHER;
    case InstructionKind::reduce_scatter:
      return chakra::REDUCE_SCATTER;
    case InstructionKind::all_to_all:
      return chakra::ALL_TO_ALL;
    case InstructionKind::broadcast:
      return chakra::BROADCAST;
    case InstructionKind::reduce:
      return chakra::REDUCE;
    default:
      return std::nullopt;
  }
}

std::int64_t bytes_of(const std::vector<Operand>& operands) {
  std::int64_t bytes = 0;
  for (const Operand& each : operands) bytes += each.type.bytes();
  return bytes;
}

std::int64_t input_bytes(const Instruction& instruction) {
  return bytes_of(instruction.inputs.empty() ? instruction.outputs : instruction.inputs);
}

std::vector<Kernel> kernels_of(const Program& program, const Instruction& instruction) {
  const StepSettings& training = program.settings->training;
  std::vector<Kernel> kernels;
  if (instruction.kind == InstructionKind::optimizer_step) {
    append_step_kernels(program, instruction, kernels);
  } else if (instruction.kind == InstructionKind::compute) {
    std::vector<TensorType> inputs, outputs;
    for (const Operand& each : instruction.inputs) inputs.push_back(each.type);
    for (const Operand& each : instruction.outputs) outputs.push_back(each.type);
    append_kernels({instruction.op, instruction.attributes, inputs, outputs}, training.compiler,
                   kernels);
  }
  return kernels;
}

int channels_of(const std::vector<Program>& stages) {
  int most = 0;
  for (const Program& program : stages)
    for (const Body& body : program.bodies)
      for (const Instruction& each : body.instructions)
        if (each.peer >= 0) most = std::max(most, each.channel);
  return most + 1;
}

class ChakraWriter {
 public:
  ChakraWriter(int rank, const std::vector<Program>& stages)
      : rank_(rank),
        mesh_(stages.front().settings->mesh()),
        own_(mesh_.coordinates(rank)),
        program_(stages[own_.pipeline]),
        resolve_(program_),
        channels_(channels_of(stages)) {}

  std::string write(std::span<const TimelineEntry> entries) {
    std::string nodes;
    std::map<RunId, TimelineEntry> step;
    for (const TimelineEntry& entry : entries) {
      const RunId run{entry.task, entry.instruction};
      if (step.contains(run)) {  // a run comes once in a step, so the next step begins here
        write_step(step, nodes);
        step.clear();
      }
      step.emplace(run, entry);
    }
    write_step(step, nodes);
    std::string text;
    chakra::GlobalMetadata metadata;
    metadata.set_version("0.0.4");
    append(metadata, text);
    append(process_groups(), text);
    return text + nodes;
  }

 private:
  using Ids = std::vector<std::uint64_t>;

  template <class Message>
  static void append(const Message& message, std::string& text) {
    google::protobuf::io::StringOutputStream out(&text);
    MESHWRIGHT_CHECK(google::protobuf::util::SerializeDelimitedToZeroCopyStream(message, &out),
                     "a message fits into a string");
  }

  void write_step(const std::map<RunId, TimelineEntry>& step, std::string& text) {
    ids_.clear();
    shifts_ = 0;
    const Ids before = last_of_streams();
    for (Ids& last : last_) last.clear();
    for (const auto& [run, entry] : step) {
      const Task& task = program_.tasks[run.task];
      const Instruction& instruction = program_.bodies[task.body].instructions[run.instruction];
      Ids& last = last_[static_cast<std::size_t>(instruction.stream)];
      std::set<std::uint64_t> after(last.begin(), last.end());
      for (const Wait& wait : instruction.waits)
        if (const auto found = ids_.find(resolve_(run.task, wait)); found != ids_.end())
          after.insert(found->second.begin(), found->second.end());
      if (after.empty()) after.insert(before.begin(), before.end());
      Ids& ids = ids_[run];
      for (chakra::Node& node : nodes_of(instruction, task)) {
        node.set_id(next_id_++);
        node.set_start_time_micros(microseconds(entry.begin));
        node.set_duration_micros(microseconds(entry.end) - microseconds(entry.begin));
        for (const std::uint64_t id : after) node.add_data_deps(id);
        ids.push_back(node.id());
        append(node, text);
      }
      last = ids;
    }
  }

  Ids last_of_streams() const {
    Ids all;
    for (const Ids& ids : last_) all.insert(all.end(), ids.begin(), ids.end());
    return all;
  }

  // Returns the nodes of one run of an instruction, without ids, times and dependencies: two for a
  // shift in a ring, one for all others.
  std::vector<chakra::Node> nodes_of(const Instruction& instruction, const Task& task) {
    if (instruction.kind == InstructionKind::ring_shift) return shift(instruction);
    chakra::Node node = named(instruction);
    if (const auto type = collective_type(instruction.kind)) {
      node.set_type(chakra::COMM_COLL_NODE);
      add_number(node, "comm_type", *type);
      add_number(node, "comm_size", input_bytes(instruction));
      chakra::AttributeProto& group = *node.add_attr();
      group.set_name("pg_name");
      group.set_string_val(std::to_string(group_number(instruction.group)));
    } else if (instruction.kind == InstructionKind::send) {
      const int peer = mesh_.rank({instruction.peer, own_.tensor, own_.rdp});
      to_message(true, rank_, peer, input_bytes(instruction), tag_of(instruction, task), node);
    } else if (instruction.kind == InstructionKind::recv) {
      const int peer = mesh_.rank({instruction.peer, own_.tensor, own_.rdp});
      to_message(false, peer, rank_, bytes_of(instruction.outputs), tag_of(instruction, task),
                 node);
    } else if (instruction.kind == InstructionKind::copy_in ||
               instruction.kind == InstructionKind::copy_out) {
      node.set_type(instruction.kind == InstructionKind::copy_in ? chakra::MEM_LOAD_NODE
                                                                 : chakra::MEM_STORE_NODE);
      add_tensor_size(node, input_bytes(instruction));
    } else {
      node.set_type(chakra::COMP_NODE);
      add_work(instruction, node);
    }
    return {node};
  }

  chakra::Node named(const Instruction& instruction) const {
    chakra::Node node;
    node.set_name(instruction_name(instruction, program_));
    chakra::AttributeProto& on_cpu = *node.add_attr();
    on_cpu.set_name("is_cpu_op");
    on_cpu.set_bool_val(false);
    return node;
  }

  void add_work(const Instruction& instruction, chakra::Node& node) const {
    double flops = 0, bytes = 0;
    for (const Kernel& kernel : kernels_of(program_, instruction))
      flops += kernel.flops, bytes += kernel.bytes;
    if (instruction.kind == InstructionKind::load_input)
      bytes = static_cast<double>(bytes_of(instruction.outputs));
    add_number(node, "num_ops", static_cast<std::int64_t>(flops));
    add_tensor_size(node, static_cast<std::int64_t>(bytes));
  }

  static void to_message(bool sends, int from, int to, std::int64_t bytes, std::int64_t tag,
                         chakra::Node& node) {
    node.set_type(sends ? chakra::COMM_SEND_NODE : chakra::COMM_RECV_NODE);
    add_rank(node, "comm_src", from);
    add_rank(node, "comm_dst", to);
    add_number(node, "comm_size", bytes);
    add_rank(node, "comm_tag", tag);
  }

  // Returns a message's tag, made of the sending virtual stage, the direction, the micro-batch and
  // the channel. It is odd, because shifts have even tags.
  std::int64_t tag_of(const Instruction& instruction, const Task& task) const {
    const int here = program_.layout.virtual_stage(program_.stage, task.chunk);
    const int there = peer_virtual_stage(program_, instruction);
    const bool sends = instruction.kind == InstructionKind::send;
    const std::int64_t sender = sends ? here : there, receiver = sends ? there : here;
    std::int64_t tag = sender * 2 + (sender < receiver ? 1 : 0);
    tag = tag * program_.micro_batches + task.micro_batch_index;
    tag = tag * channels_ + instruction.channel;
    return (tag * 2 + 1) % (std::int64_t{1} << 31);
  }

  // Returns a shift in a ring as a send and a receive. Their tag is made of the number of the shift
  // in the step, which is the same on all ranks of a group, because they do the same shifts in the
  // same order.
  std::vector<chakra::Node> shift(const Instruction& instruction) {
    const std::vector<int> group = mesh_.group(instruction.group, rank_);
    const std::size_t index = mesh_.index_in(instruction.group, rank_), size = group.size();
    const std::int64_t tag = 2 * shifts_++ % (std::int64_t{1} << 31);
    chakra::Node send = named(instruction), receive = send;
    to_message(true, rank_, group[(index + 1) % size], bytes_of(instruction.inputs), tag, send);
    to_message(false, group[(index + size - 1) % size], rank_, bytes_of(instruction.outputs), tag,
               receive);
    return {send, receive};
  }

  // Notes the members of a process group and returns its number. The number is the same on all
  // members, because it is made of the group's kind and its lowest rank.
  std::int64_t group_number(GroupKind kind) {
    if (kind == GroupKind::world) {
      groups_[0] = {};
      return 0;
    }
    std::vector<int> ranks = mesh_.group(kind, rank_);
    MESHWRIGHT_CHECK(!ranks.empty(), "who takes part in a collective is in its group");
    const std::int64_t number = 1 + static_cast<std::int64_t>(kind) * mesh_.ranks() + ranks.front();
    groups_[number] = std::move(ranks);
    return number;
  }

  // Returns the node that lists the process groups. Its value is a Python list of one string as
  // Python prints it, because Chakra's converter writes PyTorch's groups in this way.
  chakra::Node process_groups() const {
    json list = json::array();
    for (const auto& [number, ranks] : groups_)
      list.push_back({{"pg_name", std::to_string(number)}, {"ranks", ranks}});
    chakra::Node node;
    node.set_id(0);
    node.set_name("## process_group:init ##");
    node.set_type(chakra::METADATA_NODE);
    node.mutable_inputs()->set_values("['" + list.dump() + "']");
    return node;
  }

  int rank_;
  Mesh mesh_;
  Coordinates own_;
  const Program& program_;
  WaitResolver resolve_;
  int channels_ = 1;
  std::map<std::int64_t, std::vector<int>> groups_;  // those that collectives name
  std::map<RunId, Ids> ids_;                         // nodes of each run of the step
  std::array<Ids, stream_count> last_;               // last nodes of each stream
  std::uint64_t next_id_ = 1;
  std::int64_t shifts_ = 0;  // shifts of the step so far
};

}  // namespace

std::string to_chakra(std::span<const TimelineEntry> entries, int rank,
                      const std::vector<Program>& stages) {
  return ChakraWriter(rank, stages).write(entries);
}

}  // namespace meshwright::program
