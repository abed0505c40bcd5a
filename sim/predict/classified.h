// Classifies the instructions of a program by a function, which is called once for each instruction
// that is asked about.
#pragma once

#include <optional>
#include <vector>

#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright::sim {

template <class Kind, Kind (*kind_of)(const Instruction&, const Body&, const StepSettings&)>
class Classified {
 public:
  explicit Classified(const Program& program) : program_(program) {
    for (const Body& body : program.bodies) known_.emplace_back(body.instructions.size());
  }

  Kind of(const TimelineEntry& entry) {
    const int index = program_.tasks[entry.task].body;
    const Body& body = program_.bodies[index];
    std::optional<Kind>& known = known_[index][entry.instruction];
    if (!known)
      known = kind_of(body.instructions[entry.instruction], body, program_.settings->training);
    return *known;
  }

 private:
  const Program& program_;
  std::vector<std::vector<std::optional<Kind>>> known_;  // [body][instruction]
};

}  // namespace meshwright::sim
