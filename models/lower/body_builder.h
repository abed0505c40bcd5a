// Writes one body: keeps list order, adds the waits between streams that data dependences need, and
// tracks how long each task buffer is live.
//
// Rule that makes memory safe across streams: an instruction of another stream than compute waits
// for the compute instruction before it in the list, and its task buffers stay live until a compute
// instruction has waited for it.
#pragma once

#include <array>
#include <vector>

#include "models/plan/program.h"

namespace meshwright {

class BodyBuilder {
 public:
  BodyBuilder(Program& program, int body);

  // Appends and returns the instruction's index. Waits given by the caller are kept.
  int emit(Instruction instruction);
  // The next compute instruction also waits for this one (work that is not to overlap compute).
  void join_before_next_compute(int instruction) { forced_.push_back(instruction); }
  int last_compute() const { return last_compute_; }
  int number() const { return body_; }
  int size() const { return static_cast<int>(body().instructions.size()); }
  Body& body() const { return program_.bodies[static_cast<std::size_t>(body_)]; }
  // Ends the body: nothing of the task region may be in use by an instruction that nobody waited
  // for, and what a backward body makes for later bodies is there.
  void finish();

 private:
  // Who touched bytes [begin, end) of a buffer last.
  struct Access {
    std::int64_t begin = 0, end = 0;
    int writer = -1;
    std::array<int, stream_count> reader;
  };
  std::vector<Access>& accesses(int buffer);
  static Access access_of(const Operand& operand);
  void depend_on_overlapping(Instruction& instruction, const Operand& operand, bool writes);
  void note_read(const Operand& operand, Stream stream, int at);
  void note_write(const Operand& operand, int at);
  void depend(Instruction& instruction, int on);
  void touch(const Operand& operand, int at);
  void joined(Stream stream, int up_to, int by);

  Program& program_;
  int body_;
  int last_compute_ = -1;
  std::vector<std::vector<Access>> accesses_;  // by buffer
  std::vector<int> forced_;
  // waited_[a][b]: the latest instruction of stream b that stream a has waited for in this body.
  std::array<std::array<int, stream_count>, stream_count> waited_;
  std::vector<int> unjoined_;
};

}  // namespace meshwright
