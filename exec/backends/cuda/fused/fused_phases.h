// Describes a fused operation as its CUDA kernel runs it: phases, each a pass over the columns of a
// row, and the places in which rows are kept between them. fused_source.h generates the code.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/program/graph/fusion.h"

namespace meshwright::exec::cuda {

// The distribution of a row's columns over threads. Each thread takes `vector` neighbouring columns
// at a time, at most `turns` times.
struct Layout {
  std::int64_t width = 0;
  int vector = 1;
  int threads = 32;      // that share a row: a warp, or a block
  int rows_at_once = 4;  // that a block works on
  int turns = 1;
  std::int64_t strip = 1;  // rows that a warp or block takes one after the other
  int rows_ahead = 1;      // rows of a strip that are loaded ahead of their turn
  int blocks_at_once = 0;  // on a multiprocessor, which bounds a thread's registers; 0: any

  int elements() const { return turns * vector; }  // of a row that each thread has
  std::int64_t bytes_in_shared() const { return width * rows_at_once * bytes_of(Dtype::f32); }
};

// The place of a value's elements between the phase that makes or loads the value and the last
// phase that reads it. Threads keep their own columns, so shared memory needs no barrier.
enum class Home : std::uint8_t { phase, registers, shared, reloaded };

// A row of an operand, as it is loaded or as a step makes it. Each step that writes an operand
// makes a new value.
struct Value {
  int operand = -1;
  bool is_loaded = false;  // from the operand's memory; otherwise a step makes it
  std::string row_offset;  // the row's offset in that memory, "row * 768 + "
  int made = 0;            // the first phase in which it can be read
  std::set<int> read{};    // phases that read it
  Home home = Home::phase;
  bool ahead = false;  // the strip's next row is loaded while the kernel works on this one

  int begin() const { return is_loaded ? *read.begin() : made; }
  bool is_kept() const { return !read.empty() && *read.rbegin() > begin(); }
};

// A line in the loop over a thread's columns. It sets a value, adds to a sum over the columns of a
// row, or adds to a gradient that is summed over rows. $i stands for an element of arguments[i].
struct Statement {
  enum class Kind : std::uint8_t { value, over_row, over_rows };
  Kind kind = Kind::value;
  int phase = 0;
  int target = 0;  // by kind: a value, a sum's number in its phase, an operand
  std::string text;
  std::vector<int> arguments;
  std::string_view op;
};

// A pass over a row's columns, with the lines of code before the pass and those after it, which use
// its sums.
struct Phase {
  int sums = 0;  // number of sums over the row
  std::vector<std::string> before, after;
};

// One float of each row: column `column` of an operand that has `columns` columns, such as the
// saved mean of a norm.
struct RowNumber {
  std::string name;
  int operand = -1, columns = 1, column = 0;
};

// The parts from which a kernel's source is made. Lines of code use the variables `row` and
// `column`.
struct FusedPhases {
  Layout layout;
  // The operands that the steps use: the gradients that are summed over rows, and all others.
  std::vector<int> sums, operands;
  std::vector<Value> values;
  std::vector<RowNumber> numbers;
  std::vector<std::string> of_row;  // declarations of a row's variables
  std::vector<Phase> phases;
  std::vector<Statement> statements;
  std::map<int, Home> sum_home;  // by operand
  std::int64_t shared_bytes = 0;
  bool counts_positions = false;
  std::vector<std::uint64_t> keys;  // dropout_key of each dropout
};

// Returns the phases of a fusion's kernel. Throws NotSupportedYet if fused_kernel() cannot make
// one.
FusedPhases phases_of(const Fusion& fusion);

// Returns the CUDA type of an operand's elements.
std::string_view type_name(Dtype dtype);

// Returns whether the operand is an output that the fusion writes, as opposed to a gradient that it
// sums over rows.
inline bool is_written(const Fusion& fusion, int operand) {
  return operand >= fusion.inputs && operand < fusion.inputs + fusion.outputs;
}

}  // namespace meshwright::exec::cuda
