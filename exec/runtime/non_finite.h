// Finds where a value stopped being finite: looks at what every instruction of a replayed step
// reads and writes, and agrees with the other ranks on the first place.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "exec/comm/communicator.h"
#include "exec/runtime/arena.h"

namespace meshwright::exec {

// Thrown if a loss or a gradient is not finite. Every rank throws the same one.
class NonFinite : public RunError {
 public:
  NonFinite(int rank, const std::string& message) : RunError(message), rank_(rank) {}
  int rank() const { return rank_; }  // on which it began

 private:
  int rank_;
};

bool all_finite(const void* data, const TensorType& type);

class NonFiniteSearch {
 public:
  NonFiniteSearch(const Program& program, const Arena& memory, int rank);

  // Called around each instruction, whose results are complete in after().
  void before(const Instruction& instruction, const Task& task);
  void after(const Instruction& instruction, const Task& task);

  // The first instruction of a rank that made a value that is not finite. `found` is false if there
  // is none. It is plain data, which is sent from rank to rank.
  struct Finding {
    bool found = false;
    bool begins_here = false;  // all that was read was finite, except perhaps parameters
    int phase = 0, micro_batch_index = 0, virtual_stage = 0, instruction = 0, rank = 0;
    std::array<char, 512> text{};
  };
  // Returns the first finding of all ranks. Every rank calls it, and all get the same finding.
  Finding first_of_all(Communicator& everybody) const;

 private:
  bool finite(const Instruction& instruction, const Operand& operand, int slot) const;
  std::string wrong_parameter() const;

  const Program& program_;
  const Arena& memory_;
  int rank_;
  std::vector<char> holds_parameters_;                  // by buffer; gathered ones count too
  bool read_finite_ = true, parameters_finite_ = true;  // in the instruction in flight
  Finding first_;                                       // this rank's first finding
};

}  // namespace meshwright::exec
