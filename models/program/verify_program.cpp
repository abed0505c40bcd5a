// Checks the rules of Programs. Implements broken_rule() and verify() of program.h.
#include <algorithm>
#include <string>

#include "models/core/error.h"
#include "models/program/slots_in_use.h"
#include "models/program/walk.h"

namespace meshwright::program {

namespace {

std::string place(const Program& program, std::size_t body, std::size_t instruction) {
  return "stage " + std::to_string(program.stage) + " body " + std::to_string(body) +
         " instruction " + std::to_string(instruction);
}

// Checks that waits name instructions that exist. A wait for an instruction of the same task must
// name an earlier one; waits for other tasks mean earlier tasks by definition. This function and
// those below return what is wrong, or "" if nothing is.
std::string wrong_waits(const Program& program) {
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
    const auto& instructions = program.bodies[b].instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i)
      for (const Wait& wait : instructions[i].waits) {
        if (wait.relation == Wait::Relation::same_task) {
          if (wait.instruction < 0 || wait.instruction >= static_cast<int>(i))
            return place(program, b, i) + " waits for a later one of its task";
        } else if (wait.relation != Wait::Relation::previous_task) {
          if (wait.body < 0 || wait.body >= std::ssize(program.bodies))
            return place(program, b, i) + " waits for a body that is not there";
          const std::size_t size = program.bodies[wait.body].instructions.size();
          if (wait.instruction >= static_cast<int>(size))
            return place(program, b, i) + " waits for an instruction that is not there";
        }
      }
  }
  return {};
}

bool lies_in_buffer(const Operand& operand, const Program& program, const Mesh& mesh) {
  if (operand.buffer < 0 || operand.buffer >= std::ssize(program.memory.buffers)) return false;
  const int parts = operand.part_of == GroupKind::none ? 1 : mesh.size_of(operand.part_of);
  return operand.offset >= 0 && operand.offset + parts * operand.type.bytes() <=
                                    program.memory.buffers[operand.buffer].bytes;
}

std::string wrong_operands(const Program& program) {
  const Mesh mesh = program.settings->mesh();
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
    const auto& instructions = program.bodies[b].instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i)
      for (const auto* operands : {&instructions[i].inputs, &instructions[i].outputs})
        for (const Operand& operand : *operands)
          if (!lies_in_buffer(operand, program, mesh))
            return place(program, b, i) + " reaches beyond a buffer";
  }
  return {};
}

// An act of a stage at a rendezvous (walk.h): a send, a receive, or its part in a collective.
struct Deed {
  InstructionKind kind;
  int micro_batch_index;
  std::int64_t bytes_in, bytes_out;
  bool maximum;
  int root;
  bool operator==(const Deed&) const = default;
};
using Deeds = std::vector<std::vector<Deed>>;  // per rendezvous

Deeds deeds_of(const Script& script, std::size_t rendezvous_list) {
  Deeds deeds(rendezvous_list);
  const Program& program = script.program();
  for (const Task& task : program.tasks) {
    const auto& instructions = program.bodies[task.body].instructions;
    for (int lane = 0; lane < script.lanes(); ++lane)
      for (int s = script.first_step(task.body, lane); s < script.end_step(task.body, lane); ++s) {
        const Script::Step& step = script.steps()[s];
        const Instruction& instruction = instructions[step.instruction];
        if (step.rendezvous < 0 || !runs(instruction, task)) continue;
        const auto bytes = [](const std::vector<Operand>& operands) {
          return operands.empty() ? std::int64_t{0} : operands[0].type.bytes();
        };
        deeds[step.rendezvous].push_back({instruction.kind, task.micro_batch_index,
                                          bytes(instruction.inputs), bytes(instruction.outputs),
                                          instruction.maximum, instruction.root});
      }
  }
  return deeds;
}

std::string wrong_messages(const std::vector<Deed>& sent, const std::vector<Deed>& received) {
  if (sent.size() != received.size()) return "not as many are received as are sent";
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (sent[i].kind != InstructionKind::send || received[i].kind != InstructionKind::recv)
      return "one side must send, the other receive";
    if (sent[i].micro_batch_index != received[i].micro_batch_index)
      return "both sides must take the micro-batches in one order";
    if (sent[i].bytes_in != received[i].bytes_out)
      return "what is received has not the size of what is sent";
  }
  return {};
}

std::string wrong_rendezvous(const std::vector<Script>& scripts,
                             const std::vector<Rendezvous>& rendezvous_list) {
  std::vector<Deeds> deeds;
  for (const Script& script : scripts) deeds.push_back(deeds_of(script, rendezvous_list.size()));
  const int stages = static_cast<int>(scripts.size());
  for (std::size_t l = 0; l < rendezvous_list.size(); ++l) {
    const Rendezvous& rendezvous = rendezvous_list[l];
    if (rendezvous.is_message()) {
      std::vector<Deed> sent = deeds[rendezvous.sender][l];
      std::vector<Deed> received = deeds[rendezvous.receiver][l];
      if (rendezvous.sender == rendezvous.receiver) {  // both sides in one list
        std::erase_if(sent, [](const Deed& deed) { return deed.kind == InstructionKind::recv; });
        std::erase_if(received,
                      [](const Deed& deed) { return deed.kind == InstructionKind::send; });
      }
      const std::string wrong = wrong_messages(sent, received);
      if (!wrong.empty())
        return "messages from virtual stage " + std::to_string(rendezvous.from) + " to " +
               std::to_string(rendezvous.to) + ": " + wrong;
    } else if (spans_stages(rendezvous.group)) {
      const int step = rendezvous.group == GroupKind::embedding ? std::max(1, stages - 1) : 1;
      for (int stage = step; stage < stages; stage += step)
        if (deeds[stage][l] != deeds[0][l])
          return "collectives over " + std::string(name_of(rendezvous.group)) +
                 " do not come in one order on all stages";
    }
  }
  return {};
}

// A visitor of the walk (walk.h) that only notes which runs have happened.
struct Ledger {
  std::vector<std::vector<bool>> ran;
  explicit Ledger(const Participants& participants) {
    for (const Script* script : participants.scripts) ran.emplace_back(script->runs(), false);
  }
  bool done(int rank, int run) const { return ran[rank][run]; }
  void reached(const Arrival&, int, std::span<const int>) {}
  void alone(const Arrival& arrival) { ran[arrival.rank][arrival.run] = true; }
  int next_end() { return -1; }  // runs end as soon as they begin, so none is in flight
  void together(std::span<const Arrival> arrivals) {
    for (const Arrival& arrival : arrivals) alone(arrival);
  }
};

}  // namespace

std::string broken_rule(const std::vector<Program>& stages) {
  for (const Program& program : stages) {
    if (const std::string wrong = wrong_waits(program); !wrong.empty()) return wrong;
    if (const std::string wrong = broken_rule(program.memory); !wrong.empty())
      return "stage " + std::to_string(program.stage) + " memory: " + wrong;
    if (const std::string wrong = wrong_operands(program); !wrong.empty()) return wrong;
  }
  for (const LaneOrder order : {LaneOrder::streams, LaneOrder::inline_order}) {
    std::vector<Rendezvous> rendezvous_list;
    std::vector<Script> scripts;
    scripts.reserve(stages.size());
    for (const Program& program : stages) scripts.emplace_back(program, order, rendezvous_list);
    if (order == LaneOrder::streams)
      if (const std::string wrong = wrong_rendezvous(scripts, rendezvous_list); !wrong.empty())
        return wrong;
    const Participants participants = participants_of_stages(scripts, rendezvous_list);
    Ledger ledger(participants);
    const std::string left = Walk<Ledger>(participants, ledger).run();
    if (!left.empty()) return "deadlock: " + left;
  }
  for (const Program& program : stages)
    if (const std::string wrong = wrong_slots(program); !wrong.empty()) return wrong;
  return {};
}

void verify(const std::vector<Program>& stages) {
  const std::string broken = broken_rule(stages);
  MESHWRIGHT_CHECK(broken.empty(), broken);
}

}  // namespace meshwright::program
