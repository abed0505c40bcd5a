#include "tests/models/races.h"

#include <algorithm>

namespace meshwright::tests {

namespace {

struct Access {
  RunId run;
  bool write = false, host = false;
  std::int64_t begin = 0, end = 0;
};

class Accesses {
 public:
  Accesses(const Program& program, const Mesh& mesh, int rank)
      : program_(program), mesh_(mesh), rank_(rank) {
    for (int task = 0; task < static_cast<int>(program.tasks.size()); ++task) {
      const Body& body = program.bodies[program.tasks[task].body];
      for (int i = 0; i < static_cast<int>(body.instructions.size()); ++i)
        add({task, i}, body.instructions[i]);
    }
  }
  std::vector<Access> found;  // in the order of the Program

 private:
  void add(RunId run, const Instruction& instruction) {
    const Coordinates own = mesh_.coordinates(rank_);
    if (!runs(instruction, program_.tasks[run.task]) ||
        !concerns(program_, instruction, {own.rdp, own.tensor}))
      return;
    for (const Operand& operand : instruction.inputs) add(run, operand, false);
    for (const Operand& operand : instruction.outputs) add(run, operand, true);
    if (instruction.kind != InstructionKind::optimizer_step || instruction.piece >= 0) return;
    const Bucket& bucket = program_.buckets[instruction.bucket];
    add(run, bucket.own_gradients, false);
    for (const Operand& state :
         {bucket.own_weights, bucket.master, bucket.first_moment, bucket.second_moment})
      add(run, state, true);
  }

  void add(RunId run, const Operand& operand, bool write) {
    if (operand.buffer < 0) return;
    const Task& task = program_.tasks[run.task];
    const std::int64_t bytes = operand.type.bytes();
    const std::int64_t part =
        operand.part_of == GroupKind::none ? 0 : mesh_.index_in(operand.part_of, rank_) * bytes;
    const std::int64_t begin =
        program_.memory.address(operand.buffer, task.slot, task.window) + operand.offset + part;
    const bool host = program_.memory.buffers[operand.buffer].region == Region::host;
    found.push_back({run, write, host, begin, begin + bytes});
  }

  const Program& program_;
  const Mesh& mesh_;
  int rank_;
};

std::string name_of(const Program& program, RunId run) {
  const Task& task = program.tasks[run.task];
  return "task " + std::to_string(run.task) + " (body " + std::to_string(task.body) +
         ", micro-batch " + std::to_string(task.micro_batch_index) + ") instruction " +
         std::to_string(run.instruction);
}

}  // namespace

RunOrder::RunOrder(const Program& program) {
  const WaitResolver resolve(program);
  std::array<int, stream_count> count{};
  std::array<std::array<int, stream_count>, stream_count> latest{};
  for (int task = 0; task < static_cast<int>(program.tasks.size()); ++task) {
    const Body& body = program.bodies[program.tasks[task].body];
    std::vector<Run>& of_task = runs_.emplace_back(body.instructions.size());
    for (std::size_t i = 0; i < body.instructions.size(); ++i) {
      const Instruction& instruction = body.instructions[i];
      if (!meshwright::program::runs(instruction, program.tasks[task])) continue;
      const auto stream = static_cast<std::size_t>(instruction.stream);
      std::array<int, stream_count> after = latest[stream];
      for (const Wait& wait : instruction.waits) {
        const RunId id = resolve(task, wait);
        if (id.task < 0) continue;
        const Run& other = run_of(id);
        for (std::size_t s = 0; s < stream_count; ++s)
          after[s] = std::max(after[s], other.after[s]);
        int& of_its_stream = after[other.stream];
        of_its_stream = std::max(of_its_stream, other.number);
      }
      const int number = ++count[stream];
      of_task[i] = {static_cast<int>(stream), number, after};
      after[stream] = number;
      latest[stream] = after;
    }
  }
}

const RunOrder::Run& RunOrder::run_of(RunId id) const { return runs_[id.task][id.instruction]; }

bool RunOrder::before(RunId earlier, RunId later) const {
  const Run &a = run_of(earlier), &b = run_of(later);
  return a.stream == b.stream || b.after[a.stream] >= a.number;
}

std::string race_in(const Program& program, const Mesh& mesh, int rank) {
  const RunOrder order(program);
  std::vector<Access> all = Accesses(program, mesh, rank).found;
  std::stable_sort(all.begin(), all.end(),
                   [](const Access& a, const Access& b) { return a.begin < b.begin; });
  std::vector<const Access*> open;  // accesses that have begun and may not have ended
  for (const Access& access : all) {
    std::erase_if(open, [&](const Access* other) { return other->end <= access.begin; });
    for (const Access* other : open) {
      if (other->host != access.host || !(other->write || access.write)) continue;
      const auto place = [](const Access& each) {
        return std::pair(each.run.task, each.run.instruction);
      };
      if (place(*other) == place(access)) continue;
      const auto [first, second] = std::minmax(
          *other, access, [&](const Access& a, const Access& b) { return place(a) < place(b); });
      if (!order.before(first.run, second.run))
        return "stage " + std::to_string(program.stage) + ": " + name_of(program, second.run) +
               " may run beside " + name_of(program, first.run);
    }
    open.push_back(&access);
  }
  return "";
}

std::string race_in(const std::vector<Program>& stages) {
  const Mesh mesh = stages.front().settings->mesh();
  const Degrees& degrees = mesh.degrees();
  for (const Program& program : stages)
    for (const Coordinates& rank :
         {Coordinates{program.stage, 0, 0},
          Coordinates{program.stage, degrees.tensor - 1, degrees.data * degrees.context - 1}})
      if (std::string race = race_in(program, mesh, mesh.rank(rank)); !race.empty()) return race;
  return "";
}

}  // namespace meshwright::tests
