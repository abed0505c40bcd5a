// Describes a fused operation as its CUDA kernel runs it: in phases, each of which is a pass over
// the columns of a row, with places that keep rows between phases. fused_source.h generates the
// code.
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
  int threads = 32;      // of a row: 32, a warp, or all of a block
  int rows_at_once = 4;  // rows that a block works on: 4 if each is a warp's
  int turns = 1;
  std::int64_t strip = 1;  // rows that a warp or block goes through
  int rows_ahead = 1;      // rows of a strip that are loaded before their turn
  int blocks_at_once = 0;  // least blocks on a multiprocessor, which limits registers; 0: any

  int elements() const { return turns * vector; }  // most of a row in a thread
  std::int64_t bytes_in_shared() const { return width * rows_at_once * bytes_of(Dtype::f32); }
};

// The place of a value's elements between the phase that makes or loads the value and the last
// phase that reads it. `phase` is for values that no later phase reads, and `reloaded` means that
// each phase loads the value. Threads read only the columns that they wrote, so shared memory needs
// no barrier.
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
  bool ahead = false;  // loaded for a later row of the strip while the kernel works on this row

  int begin() const { return is_loaded ? *read.begin() : made; }
  bool is_kept() const { return !read.empty() && *read.rbegin() > begin(); }
};

// A line of code in the loop over a thread's columns. The line sets a value, adds to a sum over the
// columns of a row, or adds to a gradient that is summed over rows. In the text, $i stands for an
// element of the value arguments[i].
struct Statement {
  enum class Kind : std::uint8_t { value, over_row, over_rows };
  Kind kind = Kind::value;
  int phase = 0;
  int target = 0;  // for the kinds in order: value, number of a sum in its phase, operand
  std::string text;
  std::vector<int> arguments;
  std::string_view op;
};

// A pass over a row's columns. Lines of `before` stand in the loop over the columns, before its
// statements. Lines of `after` follow the loop and use its sums.
struct Phase {
  int sums = 0;  // number of sums over the row
  std::vector<std::string> before, after;
};

// A float of each row: column `column` of an operand that has `columns` columns, such as the mean
// that a norm saved.
struct RowNumber {
  std::string name;
  int operand = -1, columns = 1, column = 0;
};

// The parts from which a kernel's source is made. Lines of code may use the variables `row`,
// `column` and `thread`.
struct FusedPhases {
  Layout layout;
  // The numbers of the operands that the steps use, except internal ones: in `sums` the gradients
  // that are summed over rows, in `operands` all others.
  std::vector<int> sums, operands;
  std::vector<Value> values;
  std::vector<RowNumber> numbers;
  std::vector<std::string> of_row;  // declarations of a row's variables
  std::vector<Phase> phases;
  std::vector<Statement> statements;
  std::map<int, Home> sum_home;  // by operand
  std::int64_t shared_bytes = 0;
  bool counts_positions = false;
  std::vector<std::uint64_t> keys;  // the different dropout keys
};

// Returns the phases of a fusion's kernel. Throws NotSupportedYet if fused_kernel() cannot make
// one.
FusedPhases phases_of(const Fusion& fusion);

// Returns the name of the CUDA type of elements of f32, f16 or bf16.
std::string_view type_name(Dtype dtype);

// Returns whether the operand is an output that the fusion writes, as opposed to a gradient that it
// sums over rows.
inline bool is_written(const Fusion& fusion, int operand) {
  return operand >= fusion.inputs && operand < fusion.inputs + fusion.outputs;
}

}  // namespace meshwright::exec::cuda
