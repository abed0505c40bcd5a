#include "exec/backends/cuda/fused/fused_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exec/backends/cuda/fused/fused_phases.h"

namespace meshwright::exec::cuda {

namespace {

class Writer {
 public:
  Writer(const Fusion& fusion, const FusedPhases& phases, const std::string& name)
      : fusion_(fusion), of_(phases) {
    kernel_.name = name;
    kernel_.operands = phases.operands;
    kernel_.sums = phases.sums;
    kernel_.shared_bytes = phases.shared_bytes;
    kernel_.counts_positions = phases.counts_positions;
    kernel_.keys = phases.keys;
  }

  FusedKernel kernel() && {
    write();
    return std::move(kernel_);
  }

 private:
  // Returns the code for an element of a value or, with `first`, for the address of the first of a
  // turn's `vector` elements.
  static std::string element(const std::string& name, Home home, const std::string& vector,
                             bool first = false) {
    switch (home) {
      case Home::registers:
        return first ? fmt::format("{} + turn * {}", name, vector)
                     : fmt::format("{}[turn * {} + j]", name, vector);
      case Home::shared:
        return first ? name + " + column" : name + "[column + j]";
      default:
        return first ? name : name + "[j]";
    }
  }
  std::string element(int value, bool first = false) const {
    return element(fmt::format("v{}", value), of_.values[value].home,
                   std::to_string(of_.layout.vector), first);
  }
  std::string element_of_sum(int operand, bool first = false) const {
    return element(fmt::format("total{}", operand), of_.sum_home.at(operand),
                   std::to_string(of_.layout.vector), first);
  }

  void line(const std::string& text) {
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      kernel_.source.append(2 * depth_, ' ');
      kernel_.source.append(text, begin, end - begin) += '\n';
      begin = end + 1;
    }
  }
  void open(const std::string& text) {
    line(text + " {");
    ++depth_;
  }
  void close() {
    --depth_;
    line("}");
  }

  // Declares a value that is kept between phases: an array of a thread's columns in registers, or
  // the address of the row in shared memory. Values of other homes are not declared here.
  void declare_kept(const std::string& name, Home home, const char* initial) {
    if (home == Home::registers)
      line(fmt::format("float {}[{}]{};", name, of_.layout.elements(), initial));
    if (home == Home::shared) {
      const std::string row = of_.layout.rows_at_once > 1
                                  ? fmt::format(" + threadIdx.x / 32 * {}", of_.layout.width)
                                  : "";
      line(fmt::format("float* const {} = kept + {}{};", name, shared_used_ / bytes_of(Dtype::f32),
                       row));
      shared_used_ += of_.layout.bytes_in_shared();
    }
  }

  // Opens the loop over a thread's columns, which is fully unrolled if it indexes registers.
  // close_columns() declares `column` only if the loop uses it, because compilers warn of unused
  // variables.
  void open_columns(bool in_registers) {
    line(in_registers ? "#pragma unroll" : "#pragma unroll 2");
    open(fmt::format("for (int turn = 0; turn < {}; ++turn)", of_.layout.turns));
    columns_begin_ = kernel_.source.size();
    guarded_ =
        std::int64_t{of_.layout.turns} * of_.layout.threads * of_.layout.vector != of_.layout.width;
    if (guarded_) open(fmt::format("if (column < {})", of_.layout.width));
  }
  void close_columns() {
    if (guarded_) close();
    if (kernel_.source.find("column", columns_begin_) != std::string::npos)
      kernel_.source.insert(
          columns_begin_,
          fmt::format("{}const int column = (turn * {} + thread) * {};\n",
                      std::string(2 * depth_, ' '), of_.layout.threads, of_.layout.vector));
    close();
  }
  void open_vector() {
    line("#pragma unroll");
    open(fmt::format("for (int j = 0; j < {}; ++j)", of_.layout.vector));
  }

  std::string written(const Statement& statement) const {
    std::string text;
    for (std::size_t i = 0; i < statement.text.size(); ++i) {
      if (statement.text[i] == '$')
        text += element(statement.arguments[statement.text[++i] - '0']);
      else
        text += statement.text[i];
    }
    const std::string target = statement.kind == Statement::Kind::value ? element(statement.target)
                               : statement.kind == Statement::Kind::over_row
                                   ? fmt::format("sum_{}[{}]", statement.phase, statement.target)
                                   : element_of_sum(statement.target);
    const char* sets = statement.kind == Statement::Kind::value ? "=" : "+=";
    return fmt::format("{} {} {};  // {}", target, sets, text, statement.op);
  }

  bool is_in_registers(const Statement& statement) const {
    const auto kept = [&](int value) { return of_.values[value].home == Home::registers; };
    if (std::ranges::any_of(statement.arguments, kept)) return true;
    if (statement.kind == Statement::Kind::over_row) return false;
    return statement.kind == Statement::Kind::value
               ? kept(statement.target)
               : of_.sum_home.at(statement.target) == Home::registers;
  }

  void write_phase(int number) {
    const Phase& of = of_.phases[number];
    std::vector<const Statement*> statements;
    for (const Statement& each : of_.statements)
      if (each.phase == number) statements.push_back(&each);
    if (of.sums > 0) line(fmt::format("float sum_{}[{}] = {{}};", number, of.sums));
    if (!statements.empty()) write_columns(number, statements);
    if (of.sums > 0)
      line(fmt::format("add_over_row<{}>(sum_{}{});", of_.layout.threads, number, turn_of(number)));
    for (const std::string& text : of.after) line(text);
  }

  // Returns the text of the argument `turn` of add_over_row for a phase's sums. It is empty if a
  // warp has a row. If a block has a row, 0 and 1 alternate from one phase with sums to the next,
  // and also from row to row.
  std::string turn_of(int number) const {
    if (of_.layout.threads == 32) return "";
    const auto has_sums = [](const Phase& phase) { return phase.sums > 0; };
    const auto begin = of_.phases.begin();
    const auto before = std::count_if(begin, begin + number, has_sums);
    const auto all = std::count_if(begin, of_.phases.end(), has_sums);
    if (of_.layout.strip == 1 || all % 2 == 0) return fmt::format(", {}", before % 2);
    return before % 2 == 0 ? ", (int)row & 1" : ", (int)row & 1 ^ 1";
  }

  void write_columns(int number, const std::vector<const Statement*>& statements) {
    open_columns(std::ranges::any_of(
        statements, [&](const Statement* each) { return is_in_registers(*each); }));
    for (int id = 0; id < static_cast<int>(of_.values.size()); ++id)
      if (of_.values[id].is_loaded) write_load(id, number);
    for (const std::string& text : of_.phases[number].before) line(text);
    for (const Statement* each : statements)
      if (each->kind == Statement::Kind::value && of_.values[each->target].home == Home::phase)
        line(fmt::format("float v{}[{}];", each->target, of_.layout.vector));
    open_vector();
    for (const Statement* each : statements) line(written(*each));
    close();
    for (const Statement* each : statements) {
      if (each->kind != Statement::Kind::value) continue;
      const int operand = of_.values[each->target].operand;
      if (is_written(fusion_, operand))
        line(fmt::format("store_exact<{}>(p{} + row * {} + column, {});", of_.layout.vector,
                         operand, of_.layout.width, element(each->target, true)));
    }
    close_columns();
  }

  // Writes the load of a value if this phase reads it and it was not kept since an earlier phase.
  void write_load(int id, int number) {
    const Value& value = of_.values[id];
    if (value.read.count(number) == 0) return;
    const bool first = number == value.begin();
    if (!first && value.home != Home::reloaded) return;
    if (value.home == Home::phase || value.home == Home::reloaded)
      line(fmt::format("float v{}[{}];", id, of_.layout.vector));
    if (value.ahead)
      return line(
          fmt::format("widen<{}>(held_{}[turn], {});", of_.layout.vector, id, element(id, true)));
    line(fmt::format(
        "load<{}>({} + {}column, {});", of_.layout.vector,
        first ? fmt::format("p{}", value.operand) : fmt::format("again(p{})", value.operand),
        value.row_offset, element(id, true)));
  }

  std::string parameters() const {
    std::string text;
    const auto add = [&](const std::string& parameter) {
      text += (text.empty() ? "" : ",\n    ") + parameter;
    };
    for (int id : kernel_.operands)
      add(fmt::format("{}{}* __restrict__ p{}", is_written(fusion_, id) ? "" : "const ",
                      type_name(fusion_.operands[id].dtype), id));
    if (kernel_.partial_bytes > 0) add("float* __restrict__ partial");
    if (kernel_.counts_positions)
      add("const long long* __restrict__ of_step, long long offset, int tensor_rank, int "
          "context_rank");
    for (std::size_t i = 0; i < kernel_.keys.size(); ++i)
      add(fmt::format("unsigned long long key_{}", i));
    return text;
  }

  void write() {
    const std::int64_t strips = (fusion_.rows + of_.layout.strip - 1) / of_.layout.strip;
    kernel_.threads = of_.layout.threads * of_.layout.rows_at_once;
    kernel_.blocks = (strips + of_.layout.rows_at_once - 1) / of_.layout.rows_at_once;
    kernel_.partial_bytes = static_cast<std::int64_t>(kernel_.sums.size()) * strips *
                            of_.layout.width * bytes_of(Dtype::f32);
    line(fmt::format("// {}: {} rows of {}", program::name_of(fusion_), fusion_.rows,
                     of_.layout.width));
    const std::string at_once =
        of_.layout.blocks_at_once > 0 ? fmt::format(", {}", of_.layout.blocks_at_once) : "";
    open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}{}) {}(\n    {})",
                     kernel_.threads, at_once, kernel_.name, parameters()));
    const bool warps = of_.layout.rows_at_once > 1;
    line(fmt::format("const int thread = threadIdx.x{};", warps ? " % 32" : ""));
    line(fmt::format(
        "const long long {} = {};", of_.layout.strip == 1 ? "row" : "strip",
        warps ? fmt::format("blockIdx.x * {}LL + threadIdx.x / 32", of_.layout.rows_at_once)
              : "blockIdx.x"));
    for (int id : kernel_.sums)
      declare_kept(fmt::format("total{}", id), of_.sum_home.at(id), " = {}");
    for (std::size_t i = 0; i < of_.values.size(); ++i)
      declare_kept(fmt::format("v{}", i), of_.values[i].home, "");
    clear_shared_sums();
    write_rows();
    write_partials(strips);
    close();
    if (!kernel_.sums.empty()) write_sums(strips);
  }

  void write_rows() {
    if (of_.layout.strip == 1) {
      open(fmt::format("if (row < {})", fusion_.rows));
    } else {
      line(
          fmt::format("const long long begin = strip * {0};\n"
                      "const long long end = begin + {0} < {1} ? begin + {0} : {1};",
                      of_.layout.strip, fusion_.rows));
      read_first();
      open_strip();
      take_next();
    }
    if (of_.layout.strip == 1)
      for (const RowNumber& each : of_.numbers)
        line(fmt::format("const float {} = {};", each.name, place(each, "row")));
    for (const std::string& text : of_.of_row) line(text);
    for (int i = 0; i < static_cast<int>(of_.phases.size()); ++i) write_phase(i);
    close();
    if (ahead() > 1) close(), close();
  }

  // Returns how many rows are read ahead at once.
  int ahead() const { return of_.layout.rows_ahead; }
  // Returns the text of the index of a row among those that are read ahead at once. It is empty if
  // there is only one.
  std::string slot() const { return ahead() > 1 ? "[slot]" : ""; }

  void open_slots(const std::string& row) {
    if (ahead() > 1) {
      line("#pragma unroll");
      open(fmt::format("for (int slot = 0; slot < {}; ++slot)", ahead()));
    }
    open(fmt::format("if ({} < end)", row));
  }
  void close_slots() {
    close();
    if (ahead() > 1) close();
  }

  void open_strip() {
    line("#pragma unroll 1");  // not unrolled, because loads ahead are explicit
    if (ahead() == 1) return open("for (long long row = begin; row < end; ++row)");
    open(fmt::format("for (long long first = begin; first < end; first += {})", ahead()));
    line("#pragma unroll");
    open(fmt::format("for (int slot = 0; slot < {}; ++slot)", ahead()));
    line("const long long row = first + slot;");
    open("if (row < end)");
  }

  static std::string place(const RowNumber& number, const std::string& row) {
    if (number.columns == 1) return fmt::format("p{}[{}]", number.operand, row);
    return fmt::format("p{}[{} * {} + {}]", number.operand, row, number.columns, number.column);
  }

  // Writes the code that loads the values of `row` ahead of its turn.
  void read_row(const std::string& row) {
    for (const RowNumber& each : of_.numbers)
      line(fmt::format("next_{}{} = {};", each.name, slot(), place(each, row)));
    if (!reads_ahead()) return;
    open_columns(true);
    for (int id = 0; id < static_cast<int>(of_.values.size()); ++id)
      if (of_.values[id].ahead)
        line(fmt::format("next_{}{}[turn] = packed_at<{}>(p{} + {} * {} + column);", id, slot(),
                         of_.layout.vector, of_.values[id].operand, row, of_.layout.width));
    close_columns();
  }
  bool reads_ahead() const {
    return std::ranges::any_of(of_.values, [](const Value& value) { return value.ahead; });
  }
  void declare_ahead(const char* name, const std::string& slots, const char* initial) {
    for (int id = 0; id < static_cast<int>(of_.values.size()); ++id)
      if (of_.values[id].ahead)
        line(fmt::format("Packed<{}, {}> {}_{}{}[{}]{};",
                         type_name(fusion_.operands[of_.values[id].operand].dtype),
                         of_.layout.vector, name, id, slots, of_.layout.turns, initial));
  }

  void read_first() {
    const std::string slots = ahead() > 1 ? fmt::format("[{}]", ahead()) : "";
    for (const RowNumber& each : of_.numbers)
      line(fmt::format("float next_{}{} = {};", each.name, slots, ahead() > 1 ? "{}" : "0.0f"));
    declare_ahead("next", slots, " = {}");
    if (!reads_ahead() && of_.numbers.empty()) return;
    const std::string row = ahead() > 1 ? "(begin + slot)" : "begin";
    open_slots(row);
    read_row(row);
    close_slots();
  }

  // Writes the code that makes the values that were read ahead those of the current row, and then
  // reads a later row ahead.
  void take_next() {
    for (const RowNumber& each : of_.numbers)
      line(fmt::format("const float {0} = next_{0}{1};", each.name, slot()));
    declare_ahead("held", "", "");
    if (reads_ahead()) {
      line("#pragma unroll");
      open(fmt::format("for (int turn = 0; turn < {}; ++turn)", of_.layout.turns));
      for (int id = 0; id < static_cast<int>(of_.values.size()); ++id)
        if (of_.values[id].ahead)
          line(fmt::format("held_{0}[turn] = next_{0}{1}[turn];", id, slot()));
      close();
    }
    if (!reads_ahead() && of_.numbers.empty()) return;
    const std::string row = fmt::format("(row + {})", ahead());
    open(fmt::format("if ({} < end)", row));
    read_row(row);
    close();
  }

  void clear_shared_sums() {
    for (int id : kernel_.sums) {
      if (of_.sum_home.at(id) != Home::shared) continue;
      open_columns(false);
      open_vector();
      line(element_of_sum(id) + " = 0.0f;");
      close();
      close_columns();
    }
  }

  void write_partials(std::int64_t strips) {
    if (kernel_.sums.empty()) return;
    open(fmt::format("if (strip < {})", strips));
    open_columns(true);
    for (std::size_t i = 0; i < kernel_.sums.size(); ++i)
      line(fmt::format("store<{}>(partial + ({} + strip) * {} + column, {});", of_.layout.vector,
                       static_cast<std::int64_t>(i) * strips, of_.layout.width,
                       element_of_sum(kernel_.sums[i], true)));
    close_columns();
    close();
  }

  // Writes the kernel that adds the strips' partial sums. A block has 32 columns of one of the
  // sums. Its warps take the strips round-robin, and the first warp adds up the warps' results
  // (like add_partials in rows/column_sums.cuh).
  void write_sums(std::int64_t strips) {
    constexpr int warps = 32;
    const std::int64_t blocks_of_sum = (of_.layout.width + 31) / 32;
    kernel_.sum_threads = 32 * warps;
    kernel_.sum_blocks = blocks_of_sum * static_cast<std::int64_t>(kernel_.sums.size());
    std::string parameters = "unsigned int overwrites, const float* __restrict__ partial", to;
    for (std::size_t i = 0; i < kernel_.sums.size(); ++i) {
      parameters += fmt::format(", float* __restrict__ p{}", kernel_.sums[i]);
      to += i + 1 < kernel_.sums.size() ? fmt::format("sum == {} ? p{} : ", i, kernel_.sums[i])
                                        : fmt::format("p{}", kernel_.sums[i]);
    }
    open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}_sums(\n    {})",
                     kernel_.sum_threads, kernel_.name, parameters));
    line(
        fmt::format("__shared__ float of_warp[{0}][32];\n"
                    "const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n"
                    "const int sum = blockIdx.x / {1};\n"
                    "const int column = blockIdx.x % {1} * 32 + lane;\n"
                    "float* const to = {2};\n"
                    "float total = 0.0f;",
                    warps, blocks_of_sum, to));
    open(fmt::format("if (column < {})", of_.layout.width));
    line(
        fmt::format("#pragma unroll 16\n"
                    "for (int strip = warp; strip < {0}; strip += {1})\n"
                    "  total += partial[(sum * {0}LL + strip) * {2} + column];",
                    strips, warps, of_.layout.width));
    close();
    line("of_warp[warp][lane] = total;\n__syncthreads();");
    open(fmt::format("if (warp == 0 && column < {})", of_.layout.width));
    line(
        fmt::format("total = 0.0f;\n"
                    "#pragma unroll\n"
                    "for (int w = 0; w < {}; ++w) total += of_warp[w][lane];\n"
                    "to[column] = (overwrites >> sum & 1u) != 0 ? total : to[column] + total;",
                    warps));
    close();
    close();
  }

  const Fusion& fusion_;
  const FusedPhases& of_;
  FusedKernel kernel_;
  std::int64_t shared_used_ = 0;
  int depth_ = 0;
  bool guarded_ = false;           // some threads have fewer columns than others
  std::size_t columns_begin_ = 0;  // where the body of the loop over columns begins
};

}  // namespace

FusedKernel fused_kernel(const Fusion& fusion, const std::string& name) {
  const FusedPhases phases = phases_of(fusion);
  return Writer(fusion, phases, name).kernel();
}

}  // namespace meshwright::exec::cuda
