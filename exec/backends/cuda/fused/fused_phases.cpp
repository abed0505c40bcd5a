#include "exec/backends/cuda/fused/fused_phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/core/error.h"
#include "models/program/graph/gpu_scratch.h"
#include "models/program/graph/op_table.h"

namespace meshwright::exec::cuda {

namespace {

// Returns a finite x as a float literal, with the fewest digits that restore the same float.
std::string literal(double x) {
  std::string text = fmt::format("{}", static_cast<float>(x));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

void replace_all(std::string& text, std::string_view what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at))
    text.replace(at, what.size(), by), at += by.size();
}

// Returns the expressions for the results of an operation on one element of each operand. $i stands
// for the element of operand i.
std::vector<std::string> element_forms(const FusedStep& step) {
  std::vector<std::string> forms;
  for (std::string_view form : info(step.op).elements) {
    if (form.empty()) break;
    forms.emplace_back(form);
    replace_all(forms.back(), "$factor", literal(step.attributes.factor));
    replace_all(forms.back(), "$gelu", step.attributes.gelu_tanh ? "gelu_tanh" : "gelu_erf");
  }
  return forms;
}

constexpr int columns_of_thread = 16, columns_of_adding_thread = 8, most_threads = 256;
constexpr std::int64_t vector_bytes = 16;

Layout layout_of(std::int64_t width, std::int64_t rows, std::int64_t element_bytes, bool sums) {
  Layout layout;
  layout.width = width;
  while (layout.vector * 2 * element_bytes <= vector_bytes && width % (layout.vector * 2) == 0)
    layout.vector *= 2;
  const bool warps = width <= (sums ? longest_adding_row_of_warp : longest_row_of_fused_warp);
  if (!warps) {
    // In rows of at most longest_row_of_fused_warp elements, a thread has fewer columns if the
    // kernel also keeps sums over the rows. Then a thread needs fewer registers, which leaves room
    // for more warps.
    const int columns =
        sums && width <= longest_row_of_fused_warp ? columns_of_adding_thread : columns_of_thread;
    const std::int64_t wanted = (width + columns - 1) / columns;
    layout.threads =
        static_cast<int>(std::min<std::int64_t>(most_threads, (wanted + 31) / 32 * 32));
    layout.rows_at_once = 1;
  }
  const std::int64_t turn = std::int64_t{layout.threads} * layout.vector;
  layout.turns = static_cast<int>((width + turn - 1) / turn);
  if (sums) layout.strip = strips_of_fusion(rows, width).rows_of_chunk;
  return layout;
}

// The names of the variables that hold a row's statistics, and the first phase in which they can be
// read.
struct Saved {
  std::string mean, scale;
  int made = 0;
};

// The most floats that a thread keeps in registers, if a warp or a block has a row. A thread has
// 255 registers, but also needs some for the loads of several turns: with larger limits the
// compiler spilled registers in random fusions for sm_80 and sm_90.
constexpr int kept_by_warp = 80, kept_by_block = 96;
// The most floats that a thread keeps if so many blocks run at once on a multiprocessor that a
// thread may have only 96 registers.
constexpr int kept_by_many = 52;
// The most bytes of shared memory in which a block keeps values. Every architecture from sm_80 on
// has at least 99 KiB for a block that asks for them. V100 has 96 KiB, which must also hold the
// kernel's static variables, so the longest rows have no generated kernel there (fused.cpp).
constexpr std::int64_t kept_in_shared = 96 << 10;

class Phases {
 public:
  explicit Phases(const Fusion& fusion) : fusion_(fusion), current_(fusion.operands.size(), -1) {}

  FusedPhases make() && {
    require_supported();
    made_.layout = layout_of(width_, fusion_.rows, least_element_bytes_, fusion_.accumulated > 0);
    made_.operands = operands_of(false);
    made_.sums = operands_of(true);
    for (std::size_t i = first_step(); i < fusion_.steps.size(); ++i)
      add_step(fusion_.steps[i], static_cast<int>(i));
    find_reads();
    find_homes();
    return std::move(made_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw NotSupportedYet(
        fmt::format("no CUDA kernel of the fusion {}: {}", program::name_of(fusion_), why));
  }
  void require(bool condition, const std::string& why) const {
    if (!condition) refuse(why);
  }

  std::size_t first_step() const { return fusion_.loop == Fusion::Loop::product_first ? 1 : 0; }
  const TensorType& type(int operand) const { return fusion_.operands[operand]; }

  void require_supported() {
    require(fusion_.loop == Fusion::Loop::blocks || fusion_.loop == Fusion::Loop::product_first,
            "its steps are products");
    require(fusion_.steps.size() > first_step(), "nothing follows the product");
    for (std::size_t i = first_step(); i < fusion_.steps.size(); ++i) {
      const FusedStep& step = fusion_.steps[i];
      for (int id : step.inputs) require_operand(id);
      for (int id : step.outputs) require_operand(id);
    }
    for (int id : operands_of(true))
      require(type(id).dtype == Dtype::f32, "a gradient is summed in fp32");
  }

  void require_operand(int id) {
    const TensorType& operand = type(id);
    require(
        operand.dtype == Dtype::f32 || operand.dtype == Dtype::f16 || operand.dtype == Dtype::bf16,
        "elements are fp32, fp16 or bf16");
    if (!fusion_.cut[id] || is_saved(id)) return;
    require(operand.shape.rank == 2, "activations are matrices");
    require(width_ == 0 || width_ == operand.shape[1], "rows have different widths");
    width_ = operand.shape[1];
    least_element_bytes_ = std::min(least_element_bytes_, bytes_of(operand.dtype));
  }

  // Returns whether the operand holds statistics of rows, which norms save and their gradients
  // read.
  bool is_saved(int id) const {
    for (const FusedStep& step : fusion_.steps) {
      const bool norm = step.op == Op::layer_norm || step.op == Op::rms_norm;
      const bool norm_grad = step.op == Op::layer_norm_grad || step.op == Op::rms_norm_grad;
      if ((norm && step.outputs[1] == id) || (norm_grad && step.inputs[2] == id)) return true;
    }
    return false;
  }

  // Returns the operands that the steps use, except internal ones. With `sums` these are the
  // gradients that are summed over rows, otherwise all others.
  std::vector<int> operands_of(bool sums) const {
    std::vector<char> mentioned(fusion_.operands.size(), 0);
    for (std::size_t i = first_step(); i < fusion_.steps.size(); ++i) {
      for (int id : fusion_.steps[i].inputs) mentioned[id] = 1;
      for (int id : fusion_.steps[i].outputs) mentioned[id] = 1;
    }
    std::vector<int> found;
    for (int id = 0; id < fusion_.first_internal(); ++id)
      if (mentioned[id] && fusion_.is_sum(id) == sums) found.push_back(id);
    return found;
  }

  // ---- from steps to statements

  Phase& phase(int i) {
    if (i >= std::ssize(made_.phases)) made_.phases.resize(i + 1);
    return made_.phases[i];
  }

  int add_value(Value value) {
    made_.values.push_back(std::move(value));
    return static_cast<int>(made_.values.size()) - 1;
  }

  int loaded(int operand, const std::string& offset) {
    const auto [found, is_new] = loaded_.try_emplace({operand, offset}, 0);
    if (is_new) found->second = add_value({operand, true, offset});
    return found->second;
  }

  // Returns the value that a step reads: the result of an earlier step, the current row of a
  // matrix, or an operand that all rows share.
  int argument(int operand) {
    if (current_[operand] >= 0) return current_[operand];
    return loaded(operand, fusion_.cut[operand] ? own_row() : "");
  }
  std::string own_row() const { return fmt::format("row * {} + ", width_); }

  void add_statement(Statement::Kind kind, int in_phase, int target, std::string text,
                     std::vector<int> arguments, Op op) {
    phase(in_phase);
    made_.statements.push_back(
        {kind, in_phase, target, std::move(text), std::move(arguments), info(op).name});
  }

  void set_operand(int operand, int in_phase, const std::string& text, std::vector<int> arguments,
                   Op op) {
    const std::string stored =
        type(operand).dtype == Dtype::f32
            ? text
            : fmt::format("rounded<{}>({})", type_name(type(operand).dtype), text);
    const int value = add_value({operand, false, "", in_phase});
    add_statement(Statement::Kind::value, in_phase, value, stored, std::move(arguments), op);
    current_[operand] = value;
  }

  // Adds a sum over the columns of a row to a phase. Returns the expression for the sum, which is
  // complete after the phase.
  std::string sum_over_row(int in_phase, const std::string& text, std::vector<int> arguments,
                           Op op) {
    const int number = phase(in_phase).sums++;
    add_statement(Statement::Kind::over_row, in_phase, number, text, std::move(arguments), op);
    return fmt::format("sum_{}[{}]", in_phase, number);
  }

  void sum_over_rows(int operand, int in_phase, const std::string& text, std::vector<int> arguments,
                     Op op) {
    add_statement(Statement::Kind::over_rows, in_phase, operand, text, std::move(arguments), op);
  }

  int last_made(const std::vector<int>& arguments) const {
    int phase = 0;
    for (int id : arguments) phase = std::max(phase, made_.values[id].made);
    return phase;
  }

  void add_step(const FusedStep& step, int number) {
    switch (step.op) {
      case Op::layer_norm:
      case Op::rms_norm:
        return add_norm(step, number);
      case Op::layer_norm_grad:
      case Op::rms_norm_grad:
        return add_norm_grad(step, number);
      case Op::bias_grad:
      case Op::add_row_grad: {
        const std::vector<int> dy = {argument(step.inputs[0])};
        return sum_over_rows(step.outputs[0], last_made(dy), "$0", dy, step.op);
      }
      case Op::dropout:
      case Op::dropout_grad:
        return add_dropout(step, number);
      default:
        return add_elements(step, number);
    }
  }

  void add_elements(const FusedStep& step, int number) {
    const std::vector<std::string> forms = element_forms(step);
    require(!forms.empty(), fmt::format("{} has no CUDA form", info(step.op).name));
    std::vector<int> arguments;
    for (int i = 0; i < step.inputs.size(); ++i) {
      const bool table = step.op == Op::add_position && i == 1;
      arguments.push_back(table ? row_of_position(step, number) : argument(step.inputs[i]));
    }
    const int made = last_made(arguments);
    for (std::size_t i = 0; i < forms.size(); ++i)
      set_operand(step.outputs[static_cast<int>(i)], made, forms[i], arguments, step.op);
  }

  // Returns the expression for the row's index among the rows of all ranks of a tensor group.
  // Without sequence parallelism it is `row`, because every rank has all rows.
  static std::string row_in_all(const Attributes& a, std::int64_t rows) {
    return a.sequence_parallel ? fmt::format("(row + tensor_rank * {}LL)", rows) : "row";
  }

  // Declares position_N, the row's position in its sequence, and if `sequence` is set sequence_N,
  // the number of that sequence. N is `number`.
  void declare_position(const Attributes& a, int number, bool sequence) {
    made_.counts_positions = true;
    const std::string row = row_in_all(a, fusion_.rows);
    const std::string token = fmt::format("{} % {}", row, a.sequence_length);
    made_.of_row.push_back(fmt::format(
        "const long long position_{} = {};", number,
        a.context_degree == 1 ? token
                              : fmt::format("context_position({}, context_rank, {}, {})",
                                            a.context_degree, a.sequence_length, token)));
    if (sequence)
      made_.of_row.push_back(
          fmt::format("const long long sequence_{} = *of_step + offset + {} / {};", number, row,
                      a.sequence_length));
  }

  int row_of_position(const FusedStep& step, int number) {
    const Attributes& a = step.attributes;
    declare_position(a, number, false);
    return loaded(step.inputs[1],
                  fmt::format("(position_{} + {}) * {} + ", number, a.position_offset, width_));
  }

  void add_dropout(const FusedStep& step, int number) {
    const Attributes& a = step.attributes;
    declare_position(a, number, true);
    auto key = std::ranges::find(made_.keys, a.dropout_key);
    if (key == made_.keys.end()) key = made_.keys.insert(key, a.dropout_key);
    const std::vector<int> x = {argument(step.inputs[0])};
    const int made = last_made(x);
    phase(made).before.push_back(
        fmt::format("unsigned int random_{0}[{1}];\n"
                    "random_words(random_{0}, key_{2}, sequence_{0}, position_{0}, {3}column);",
                    number, made_.layout.vector, key - made_.keys.begin(),
                    a.hidden_share ? fmt::format("tensor_rank * {}LL + ", width_) : ""));
    const auto threshold = static_cast<std::uint32_t>(a.dropout * 0x1p32);
    set_operand(step.outputs[0], made,
                fmt::format("random_{}[j] < {}u ? 0.0f : $0 * {}", number, threshold,
                            literal(1 / (1 - a.dropout))),
                x, step.op);
  }

  static std::string weight_form(const FusedStep& step, const std::string& weight) {
    return step.attributes.one_plus_weight ? fmt::format("(1.0f + {})", weight) : weight;
  }

  void add_norm(const FusedStep& step, int number) {
    const bool rms = step.op == Op::rms_norm;
    const int x = argument(step.inputs[0]);
    int at_phase = last_made({x});
    const std::string share = literal(1 / static_cast<double>(width_));
    Saved saved{fmt::format("mean_{}", number), fmt::format("scale_{}", number)};
    if (!rms) {
      const std::string sum = sum_over_row(at_phase, "$0", {x}, step.op);
      phase(at_phase).after.push_back(
          fmt::format("const float {} = {} * {};", saved.mean, sum, share));
      ++at_phase;
    }
    const std::string centred = rms ? "$0" : fmt::format("($0 - {})", saved.mean);
    const std::string squares = sum_over_row(
        at_phase, rms ? "square($0)" : fmt::format("square($0 - {})", saved.mean), {x}, step.op);
    phase(at_phase).after.push_back(fmt::format("const float {} = rsqrtf({} * {} + {});",
                                                saved.scale, squares, share,
                                                literal(step.attributes.epsilon)));
    const int operand = step.outputs[1];
    if (!fusion_.is_internal(operand)) {
      const std::string line =
          rms ? fmt::format("if (thread == 0) p{}[row] = {};", operand, saved.scale)
              : fmt::format("if (thread == 0) p{0}[row * 2] = {1}, p{0}[row * 2 + 1] = {2};",
                            operand, saved.mean, saved.scale);
      phase(at_phase).after.push_back(line);
    }
    ++at_phase;
    saved.made = at_phase;
    saved_[operand] = saved;
    std::vector<int> arguments = {x, argument(step.inputs[1])};
    std::string text = fmt::format("{} * {} * {}", centred, saved.scale, weight_form(step, "$1"));
    if (step.inputs.size() > 2) {
      arguments.push_back(argument(step.inputs[2]));
      text += " + $2";
    }
    set_operand(step.outputs[0], at_phase, text, arguments, step.op);
  }

  const Saved& saved_of(int operand, bool rms) {
    const auto [found, is_new] = saved_.try_emplace(operand);
    if (is_new) {
      found->second = {fmt::format("mean_p{}", operand), fmt::format("scale_p{}", operand)};
      if (!rms) made_.numbers.push_back({found->second.mean, operand, 2, 0});
      made_.numbers.push_back({found->second.scale, operand, rms ? 1 : 2, rms ? 0 : 1});
    }
    return found->second;
  }

  void add_norm_grad(const FusedStep& step, int number) {
    const bool rms = step.op == Op::rms_norm_grad;
    const int x = argument(step.inputs[0]), weight = argument(step.inputs[1]);
    const int dy = argument(step.inputs[3]);
    const Saved& saved = saved_of(step.inputs[2], rms);
    const int made = std::max(last_made({x, weight, dy}), saved.made);
    const std::string share = literal(1 / static_cast<double>(width_));
    const auto centred = [&](const std::string& element) {
      return rms ? element : fmt::format("({} - {})", element, saved.mean);
    };
    std::string mean_g;
    if (!rms) {
      mean_g = fmt::format("mean_g_{}", number);
      const std::string sum =
          sum_over_row(made, "$0 * " + weight_form(step, "$1"), {dy, weight}, step.op);
      phase(made).after.push_back(fmt::format("const float {} = {} * {};", mean_g, sum, share));
    }
    const std::string sum =
        sum_over_row(made, fmt::format("$0 * {} * {}", weight_form(step, "$1"), centred("$2")),
                     {dy, weight, x}, step.op);
    const std::string mean_gz = fmt::format("mean_gz_{}", number);
    phase(made).after.push_back(
        fmt::format("const float {} = {} * {} * {};", mean_gz, sum, saved.scale, share));
    if (step.outputs.size() > 1)
      sum_over_rows(step.outputs[1], made,
                    fmt::format("$0 * ({} * {})", centred("$1"), saved.scale), {dy, x}, step.op);
    if (step.outputs.size() > 2) sum_over_rows(step.outputs[2], made, "$0", {dy}, step.op);
    set_operand(step.outputs[0], made + 1,
                fmt::format("{} * ($0 * {}{} - {} * {} * {})", saved.scale, weight_form(step, "$1"),
                            rms ? "" : " - " + mean_g, centred("$2"), saved.scale, mean_gz),
                {dy, weight, x}, step.op);
  }

  // ---- where values are kept

  // Drops results that no step reads and that are not outputs, such as those of a norm that is
  // recomputed only for its statistics. Notes in which phases values are read.
  void find_reads() {
    std::vector<Statement> needed;
    for (auto each = made_.statements.rbegin(); each != made_.statements.rend(); ++each) {
      if (each->kind == Statement::Kind::value) {
        const Value& value = made_.values[each->target];
        if (value.read.empty() && !is_written(fusion_, value.operand)) continue;
      }
      for (int id : each->arguments) made_.values[id].read.insert(each->phase);
      needed.push_back(*each);
    }
    made_.statements.assign(needed.rbegin(), needed.rend());
  }

  // Decides where values are kept. Sums over rows and values that steps make come first. Loaded
  // values come next, and are loaded again if no registers are left. Operands that all rows share,
  // such as a bias, are always loaded again, because they stay in the caches.
  void find_homes() {
    registers_ = made_.layout.rows_at_once > 1 ? kept_by_warp : kept_by_block;
    for (int id : made_.sums) made_.sum_home[id] = home(true);
    for (const bool made : {true, false})
      for (Value& value : made_.values) {
        if (value.is_loaded == made || !value.is_kept()) continue;
        const bool shared_row = value.is_loaded && !fusion_.cut[value.operand];
        value.home = shared_row ? Home::reloaded : home(made);
      }
    if (made_.layout.strip == 1) return;
    find_ahead();
    // Without a given number of blocks, the compiler sometimes aims at more warps than there are
    // strips and spills registers.
    const Layout& layout = made_.layout;
    const bool few =
        (layout.rows_at_once > 1 ? kept_by_warp : kept_by_block) - registers_ <= kept_by_many;
    if (width_ <= longest_row_of_fused_warp)
      made_.layout.blocks_at_once =
          layout.rows_at_once > 1
              ? 4
              : static_cast<int>(adding_blocks_at_once(layout.threads) / (few ? 1 : 2));
  }

  // Decides which values are loaded before their row's turn, as far as the remaining registers
  // suffice.
  void find_ahead() {
    int of_row = 0;
    for (Value& value : made_.values) {
      const bool in_words = made_.layout.vector * bytes_of(type(value.operand).dtype) % 4 == 0;
      const bool is_of_row = value.is_loaded && value.row_offset == own_row() && in_words;
      if (!is_of_row || value.home == Home::reloaded || value.home == Home::shared) continue;
      const auto packed = static_cast<int>(
          made_.layout.elements() * bytes_of(type(value.operand).dtype) / bytes_of(Dtype::f32));
      value.ahead = registers_ >= packed;
      if (value.ahead) registers_ -= packed, of_row += packed;
    }
    // If rows are short, more of them are read ahead, so that about the same number of bytes is in
    // flight.
    constexpr int wanted = 16, most = 4;
    int& rows = made_.layout.rows_ahead;
    while (of_row > 0 && rows < most && 2 * rows * of_row <= wanted &&
           registers_ >= rows * of_row) {
      registers_ -= rows * of_row;
      rows *= 2;
    }
  }

  Home home(bool must) {
    if (registers_ >= made_.layout.elements()) {
      registers_ -= made_.layout.elements();
      return Home::registers;
    }
    if (!must) return Home::reloaded;
    made_.shared_bytes += made_.layout.bytes_in_shared();
    require(made_.shared_bytes <= kept_in_shared,
            fmt::format("what it keeps of a row of {} fits into no registers and shared memory",
                        width_));
    return Home::shared;
  }

  const Fusion& fusion_;
  FusedPhases made_;
  std::int64_t width_ = 0, least_element_bytes_ = bytes_of(Dtype::f32);
  std::vector<int> current_;  // per operand: the value that a step made last; -1: none
  std::map<std::pair<int, std::string>, int> loaded_;  // by operand and offset
  std::map<int, Saved> saved_;                         // by operand
  int registers_ = 0;                                  // floats that still fit
};

}  // namespace

std::string_view type_name(Dtype dtype) {
  return dtype == Dtype::f16 ? "f16" : dtype == Dtype::bf16 ? "bf16" : "float";
}

FusedPhases phases_of(const Fusion& fusion) { return Phases(fusion).make(); }

}  // namespace meshwright::exec::cuda
