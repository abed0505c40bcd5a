// Writes the instructions of one body, with the waits that they need. One rule makes memory safe
// across streams: an instruction of another stream than compute waits for the compute instruction
// before it in the list, and the buffers of the task that it uses stay live until a compute
// instruction has waited for it.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "models/program/program.h"

namespace meshwright::compiler {

class BodyBuilder {
 public:
  // Begins body `number` of the program. `chunk` is -1 for the bodies that begin and end a step.
  BodyBuilder(Program& program, int number, Body::Kind kind, int chunk = -1);

  // Adds the instruction to the body with the waits that it needs, and returns its index. Waits
  // that the caller has set are kept.
  int emit(Instruction instruction);
  // Makes the next compute instruction wait for this instruction too, because it may not overlap
  // with compute.
  void join_before_next_compute(int instruction) { forced_.push_back(instruction); }
  int last_compute() const { return last_compute_; }
  int number() const { return body_; }
  int size() const { return static_cast<int>(body().instructions.size()); }
  Body& body() const { return program_.bodies[body_]; }
  int chunk() const { return body().chunk; }
  bool is_backward() const {  // of a chunk: the backward or the weights body
    return body().kind == Body::Kind::backward || body().kind == Body::Kind::weights;
  }
  // Ends the body. Adds a compute instruction that only waits, if an instruction of another stream
  // may still use the task region, if one of a forward or backward body may still write to a slot,
  // or if join_before_next_compute() has named one.
  void finish();

 private:
  // Holds which instructions last accessed bytes [begin, end) of a buffer: the writer, and the
  // reader in each stream. -1 means that there is none.
  struct Access {
    std::int64_t begin = 0, end = 0;
    int writer = -1;
    std::array<int, stream_count> reader;
    int number = 0;  // order of creation, counted once a buffer has many accesses
  };
  // The accesses of one buffer. Mostly they are few. A buffer with many, such as the parameters of
  // ten thousand layers, has them sorted by their first byte.
  struct Accesses {
    struct Many {
      std::multimap<std::int64_t, Access> by_begin;
      std::int64_t longest = 0;  // bytes of the longest access so far
      int made = 0;
    };
    std::vector<Access> few;  // once there are many: only those that may be anywhere in the buffer
    std::unique_ptr<Many> many;

    // Visits accesses in the order in which they were made.
    template <typename Visit>
    void visit_overlapping(const Access& wanted, const Visit& visit) const;
    Access& find_or_add(const Access& wanted);
    void erase_within(const Access& written);
    Access& add(Access access);
  };
  Accesses& accesses(int buffer);
  static Access access_of(const Operand& operand);
  void depend_on_overlapping(Instruction& instruction, const Operand& operand, bool writes);
  void note_read(const Operand& operand, Stream stream, int at);
  void note_write(const Operand& operand, int at);
  bool any_in(Region region, const std::vector<Operand>& operands) const;
  bool in_task_region(const Instruction& instruction) const;
  void depend(Instruction& instruction, int on);
  void touch(const Operand& operand, int at);
  void joined(Stream stream, int up_to, int by);

  Program& program_;
  int body_;
  int last_compute_ = -1;
  std::vector<Accesses> accesses_;  // by buffer
  std::vector<int> forced_;
  // waited_[a][b]: the latest instruction of stream b that stream a has waited for in this body.
  std::array<std::array<int, stream_count>, stream_count> waited_;
  std::vector<int> unjoined_;
};

}  // namespace meshwright::compiler
