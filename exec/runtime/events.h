// The events by which streams of a device wait for each other, as the waits of a Program demand.
#pragma once

#include <vector>

#include "exec/backends/streams.h"
#include "models/program/program.h"

namespace meshwright::exec {

class Events {
 public:
  // Makes an event for each instruction that another stream waits for, and for each slot that its
  // tasks may have. Without streams there are none.
  Events(const Program& program, const WaitResolver& resolve, Streams* streams);

  void begin_step();
  // Called before an instruction of the task is issued (await), and after it (record).
  void await(int task, const Instruction& instruction);
  void record(int task, int instruction);

 private:
  int event_of(const RunId& run) const;  // -1: nobody waits for it

  const Program& program_;
  const WaitResolver& resolve_;
  Streams* streams_;
  std::vector<std::vector<int>> first_;  // [body][instruction]: event of slot 0, or -1
  std::vector<char> recorded_;           // in this step
};

}  // namespace meshwright::exec
