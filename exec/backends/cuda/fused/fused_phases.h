// A fused operation as its CUDA kernel runs it: phases, each a pass over the columns of a row, and
// where rows are kept between them. exec/backends/cuda/fused/fused_source.h writes it down.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/program/graph/fusion.h"

namespace meshwright::cuda {

// Which threads work on a row, and on which of its columns: `vector` neighbouring ones at a time,
// `turns` times.
struct Layout {
  std::int64_t width = 0;
  int vector = 1;
  int threads = 32;      // of a row: a warp, or a block
  int rows_at_once = 4;  // of a block
  int turns = 1;
  std::int64_t strip = 1;  // rows that a warp or block takes one after the other
  int rows_ahead = 1;      // of a strip, whose operands are under way
  int blocks_at_once = 0;  // of a multiprocessor, for which the compiler leaves registers; 0: any

  int elements() const { return turns * vector; }  // of a row, for each thread
  std::int64_t bytes_in_shared() const { return width * rows_at_once * bytes_of(Dtype::f32); }
};

// The place of a value's elements between the phase that makes or loads it and the last phase that
// reads it. Threads keep their own columns, so shared memory needs no barrier.
enum class Home : std::uint8_t { phase, registers, shared, reloaded };

// A row of numbers: of an operand as the steps before left it.
struct Value {
  int operand = -1;
  bool is_loaded = false;  // from the operand; else a step makes it
  std::string row_offset;  // "row * 768 + ": where its row begins there
  int made = 0;            // the first phase in which it can be read
  std::set<int> read{};    // phases
  Home home = Home::phase;
  bool ahead = false;  // the strip's next row is under way while the kernel works on one

  int begin() const { return is_loaded ? *read.begin() : made; }
  bool is_kept() const { return !read.empty() && *read.rbegin() > begin(); }
};

// A line in the loop over a thread's columns: sets a value, or adds to a sum over the row or over
// the rows. $i stands for an element of arguments[i].
struct Statement {
  enum class Kind : std::uint8_t { value, over_row, over_rows };
  Kind kind = Kind::value;
  int phase = 0;
  int target = 0;  // value; number in the phase; operand
  std::string text;
  std::vector<int> arguments;
  std::string_view op;
};

// A pass over a row's columns, what it needs before, and what follows from its sums.
struct Phase {
  int sums = 0;  // over the row
  std::vector<std::string> before, after;
};

// A number of each row, of an operand that has `columns` of them.
struct RowNumber {
  std::string name;
  int operand = -1, columns = 1, column = 0;
};

// The parts from which a kernel's source is made. Lines of code use the variables `row` and
// `column`.
struct FusedPhases {
  Layout layout;
  std::vector<int> sums, operands;  // that the steps mention: gradients that are summed, the others
  std::vector<Value> values;
  std::vector<RowNumber> numbers;
  std::vector<std::string> of_row;  // declarations
  std::vector<Phase> phases;
  std::vector<Statement> statements;
  std::map<int, Home> sum_home;  // of operand
  std::int64_t shared_bytes = 0;
  bool counts_positions = false;
  std::vector<std::uint64_t> keys;  // of dropouts
};

// Returns the phases. Throws NotSupportedYet as fused_kernel says.
FusedPhases phases_of(const Fusion& fusion);

// Returns the CUDA type of an operand's elements.
std::string_view type_name(Dtype dtype);

// Returns whether the fusion writes the operand and others read it later.
inline bool is_written(const Fusion& fusion, int operand) {
  return operand >= fusion.inputs && operand < fusion.inputs + fusion.outputs;
}

}  // namespace meshwright::cuda
