// Declares helpers of check_programs() (program_json.h): places in a file, and the check of a
// stage's memory.
#pragma once

#include <string>
#include <string_view>

#include "models/core/error.h"
#include "models/program/program.h"

namespace meshwright::program {

// A place in a file of Programs, as a JSON pointer. Its checks throw an InputError whose message
// begins with the file and the pointer.
class Place {
 public:
  Place(const std::string& where, std::string pointer)
      : where_(&where), pointer_(std::move(pointer)) {}
  Place operator/(std::string_view key) const {
    return {*where_, pointer_ + "/" + std::string(key)};
  }
  Place operator/(std::size_t index) const { return *this / std::to_string(index); }

  void demand(bool condition, std::string_view problem) const {
    if (!condition) fail(std::string(problem));
  }
  void in_range(std::int64_t value, std::int64_t least, std::int64_t most) const {
    if (value < least || value > most)
      fail(std::to_string(value) + " is out of range; use " + std::to_string(least) + " to " +
           std::to_string(most));
  }
  // Throws InputError unless `index` names one of `count` things, which the message calls `what`.
  // If `least` is -1, the index may be -1 and name none.
  void names(int index, std::size_t count, std::string_view what, int least = 0) const {
    if (index < least || index >= static_cast<std::int64_t>(count))
      fail(std::to_string(index) + " names no " + std::string(what) + "; there are " +
           std::to_string(count));
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError(*where_ + ": " + pointer_ + ": " + problem);
  }

 private:
  const std::string* where_;
  std::string pointer_;
};

constexpr std::int64_t most_bytes = std::int64_t{1} << 50;
constexpr int most_copies = 1 << 20;  // limits slots, windows, chunks and ranks

// Checks the memory of a stage. run() checks the numbers of the memory plan, that buckets have
// their operands, and that parameters are inside their buckets. check_operand() checks that an
// operand is inside its buffer. Both throw InputError otherwise.
class StageMemoryCheck {
 public:
  StageMemoryCheck(const Program& program, const Mesh& mesh, const Place& place)
      : program_(program),
        memory_(program.memory),
        settings_(*program.settings),
        mesh_(mesh),
        place_(place) {}

  void run() const;
  void check_operand(const Operand& operand, const Place& place) const;

 private:
  void check_rank(const Owner& rank, const Place& place) const;
  void check_copies(const std::vector<SlotRegion>& regions, const Place& place) const;
  void check_memory() const;
  void check_owned(const Place& place) const;
  void check_buffer(const Buffer& buffer, const Place& place) const;
  void check_holds(const Operand& operand, std::int64_t elements, const Place& place) const;
  void check_master(const Bucket& bucket, const Place& place) const;
  void check_moment(const Operand& moment, std::int64_t elements, Dtype type,
                    const Place& place) const;
  void check_average(const Operand& average, std::int64_t elements, const Place& place) const;
  void check_piece(const StatePiece& piece, const Bucket& bucket, const Place& place) const;
  void check_buckets() const;
  void check_parameter(const StageParameter& member, const Place& place) const;
  void check_cut(const Parameter& parameter, const Place& place) const;
  void check_scalar(int buffer, std::int64_t bytes, std::string_view key, int least) const;
  void check_scalars() const;
  void check_factors() const;
  void check_counted_routers() const;

  const Program& program_;
  const MemoryPlan& memory_;
  const JobSettings& settings_;
  const Mesh& mesh_;
  const Place& place_;
};

}  // namespace meshwright::program
