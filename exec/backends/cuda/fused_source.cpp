#include "exec/backends/cuda/fused_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "models/core/error.h"
#include "models/graph/gpu_scratch.h"

namespace meshwright::cuda {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::string_view type_name(Dtype dtype) {
  return dtype == Dtype::f16 ? "f16" : dtype == Dtype::bf16 ? "bf16" : "float";
}

// As few digits as bring the same float back.
std::string literal(double x) {
  std::string text = fmt::format("{}", static_cast<float>(x));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

// What an operation makes of one element of each operand; $i is that of operand i.
std::vector<std::string> element_forms(const FusedStep& step) {
  const std::string gelu = step.attributes.gelu_tanh ? "gelu_tanh" : "gelu_erf";
  switch (step.op) {
    case Op::add:
    case Op::add_bias:
    case Op::add_row:
    case Op::add_position:
      return {"$0 + $1"};
    case Op::multiply:
      return {"$0 * $1"};
    case Op::scale:
      return {literal(step.attributes.factor) + " * $0"};
    case Op::gelu:
      return {gelu + "($0)"};
    case Op::gelu_grad:
      return {"$1 * " + gelu + "_slope($0)"};
    case Op::relu:
      return {"$0 < 0.0f ? 0.0f : $0"};
    case Op::relu_grad:
      return {"$0 > 0.0f ? $1 : 0.0f"};
    case Op::tanh:
      return {"tanhf($0)"};
    case Op::tanh_grad:
      return {"$1 * (1.0f - $0 * $0)"};
    case Op::swiglu:
      return {"silu($0) * $1"};
    case Op::swiglu_grad:
      return {"$2 * $1 * silu_slope($0)", "$2 * silu($0)"};
    default:
      return {};
  }
}

// Which threads work on a row, and on which of its columns: `vector` neighbouring ones at a time,
// `turns` times.
struct Layout {
  std::int64_t width = 0;
  int vector = 1;
  int threads = 32;      // of a row: a warp, or a block
  int rows_at_once = 4;  // of a block
  int turns = 1;
  std::int64_t strip = 1;  // rows that a warp or block takes one after the other

  int elements() const { return turns * vector; }  // of a row, for each thread
};

constexpr int columns_of_thread = 16, most_threads = 256;
constexpr std::int64_t vector_bytes = 16;

Layout layout_of(std::int64_t width, std::int64_t rows, std::int64_t element_bytes, bool sums) {
  Layout layout;
  layout.width = width;
  while (layout.vector * 2 * element_bytes <= vector_bytes && width % (layout.vector * 2) == 0)
    layout.vector *= 2;
  const bool warps = width <= longest_row_of_fused_warp;
  if (!warps) {
    const std::int64_t wanted = (width + columns_of_thread - 1) / columns_of_thread;
    layout.threads =
        static_cast<int>(std::min<std::int64_t>(most_threads, (wanted + 31) / 32 * 32));
    layout.rows_at_once = 1;
  }
  const std::int64_t turn = std::int64_t{layout.threads} * layout.vector;
  layout.turns = static_cast<int>((width + turn - 1) / turn);
  if (sums) layout.strip = strips_of_fusion(rows, width).rows_of_chunk;
  return layout;
}

// Where the elements of a value are between the phase that makes or loads it and the last one that
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

// Statistics of a row.
struct Saved {
  std::string mean, scale;
  int made = 0;
};

// Floats that a thread of a warp's row, or a block's, keeps in registers. With more of its 255 the
// compiler spilled some when it made random bodies for sm_80 and sm_90: it holds several turns'
// loads as well.
constexpr int kept_by_warp = 80, kept_by_block = 96;
// Every architecture from sm_80 on gives a block 99 KiB that asks for them. V100's 96 have to do
// for the kernel's static variables too: the longest rows have no kernel there (fused.cpp).
constexpr std::int64_t kept_in_shared = 96 << 10;

class Generator {
 public:
  Generator(const Fusion& fusion, std::string name)
      : fusion_(fusion), current_(fusion.operands.size(), -1) {
    kernel_.name = std::move(name);
  }

  FusedKernel kernel() && {
    require_supported();
    layout_ = layout_of(width_, fusion_.rows, least_element_bytes_, fusion_.accumulated > 0);
    for (std::size_t i = first_step(); i < fusion_.steps.size(); ++i)
      add_step(fusion_.steps[i], static_cast<int>(i));
    find_reads();
    find_homes();
    write();
    return std::move(kernel_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw NotSupportedYet(
        fmt::format("no CUDA kernel of the fusion {}: {}", meshwright::name_of(fusion_), why));
  }
  void require(bool condition, const std::string& why) const {
    if (!condition) refuse(why);
  }

  std::size_t first_step() const { return fusion_.loop == Fusion::Loop::product_first ? 1 : 0; }
  const TensorType& type(int operand) const { return fusion_.operands[at(operand)]; }

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
    if (!fusion_.cut[at(id)] || is_saved(id)) return;
    require(operand.shape.rank == 2, "activations are matrices");
    require(width_ == 0 || width_ == operand.shape[1], "rows have different widths");
    width_ = operand.shape[1];
    least_element_bytes_ = std::min(least_element_bytes_, bytes_of(operand.dtype));
  }

  // Statistics of rows: what norms save, and their gradients read.
  bool is_saved(int id) const {
    for (const FusedStep& step : fusion_.steps) {
      const bool norm = step.op == Op::layer_norm || step.op == Op::rms_norm;
      const bool norm_grad = step.op == Op::layer_norm_grad || step.op == Op::rms_norm_grad;
      if ((norm && step.outputs[1] == id) || (norm_grad && step.inputs[2] == id)) return true;
    }
    return false;
  }

  // Those that the steps mention: gradients that are summed, or the others of the node.
  std::vector<int> operands_of(bool sums) const {
    std::vector<char> mentioned(fusion_.operands.size(), 0);
    for (std::size_t i = first_step(); i < fusion_.steps.size(); ++i) {
      for (int id : fusion_.steps[i].inputs) mentioned[at(id)] = 1;
      for (int id : fusion_.steps[i].outputs) mentioned[at(id)] = 1;
    }
    std::vector<int> found;
    for (int id = 0; id < fusion_.first_internal(); ++id)
      if (mentioned[at(id)] && fusion_.is_sum(id) == sums) found.push_back(id);
    return found;
  }

  // ---- from steps to statements

  Phase& phase(int i) {
    if (at(i) >= phases_.size()) phases_.resize(at(i) + 1);
    return phases_[at(i)];
  }

  int add_value(Value value) {
    values_.push_back(std::move(value));
    return static_cast<int>(values_.size()) - 1;
  }

  int loaded(int operand, const std::string& offset) {
    const auto [found, is_new] = loaded_.try_emplace({operand, offset}, 0);
    if (is_new) found->second = add_value({operand, true, offset});
    return found->second;
  }

  // What a step reads: what an earlier one made, its row of a matrix, or a row that all share.
  int argument(int operand) {
    if (current_[at(operand)] >= 0) return current_[at(operand)];
    return loaded(operand, fusion_.cut[at(operand)] ? fmt::format("row * {} + ", width_) : "");
  }

  void add_statement(Statement::Kind kind, int in_phase, int target, std::string text,
                     std::vector<int> arguments, Op op) {
    phase(in_phase);
    statements_.push_back(
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
    current_[at(operand)] = value;
  }

  // The name of a sum over the row, known after the phase.
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
    for (int id : arguments) phase = std::max(phase, values_[at(id)].made);
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

  // Which row of the step's whole tensor this is, where ranks share the rows.
  static std::string row_in_all(const Attributes& a, std::int64_t rows) {
    return a.sequence_parallel ? fmt::format("(row + tensor_rank * {}LL)", rows) : "row";
  }

  // Declares position_N of the row in its sequence, and sequence_N where asked.
  void declare_position(const Attributes& a, int number, bool sequence) {
    kernel_.counts_positions = true;
    const std::string row = row_in_all(a, fusion_.rows);
    const std::string token = fmt::format("{} % {}", row, a.sequence_length);
    of_row_.push_back(fmt::format("const long long position_{} = {};", number,
                                  a.context_degree == 1
                                      ? token
                                      : fmt::format("context_position({}, context_rank, {}, {})",
                                                    a.context_degree, a.sequence_length, token)));
    if (sequence)
      of_row_.push_back(fmt::format("const long long sequence_{} = *of_step + offset + {} / {};",
                                    number, row, a.sequence_length));
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
    auto key = std::find(kernel_.keys.begin(), kernel_.keys.end(), a.dropout_key);
    if (key == kernel_.keys.end()) key = kernel_.keys.insert(key, a.dropout_key);
    const std::vector<int> x = {argument(step.inputs[0])};
    const int made = last_made(x);
    phase(made).before.push_back(
        fmt::format("unsigned int random_{0}[{1}];\n"
                    "random_words(random_{0}, key_{2}, sequence_{0}, position_{0}, {3}column);",
                    number, layout_.vector, key - kernel_.keys.begin(),
                    a.hidden_share ? fmt::format("tensor_rank * {}LL + ", width_) : ""));
    const auto threshold = static_cast<std::uint32_t>(a.dropout * 0x1p32);
    set_operand(step.outputs[0], made,
                fmt::format("random_{}[j] < {}u ? 0.0f : $0 * {}", number, threshold,
                            literal(1 / (1 - a.dropout))),
                x, step.op);
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
    std::string text = fmt::format("{} * {} * $1", centred, saved.scale);
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
      if (!rms)
        of_row_.push_back(
            fmt::format("const float {} = p{}[row * 2];", found->second.mean, operand));
      of_row_.push_back(fmt::format("const float {} = p{}[{}];", found->second.scale, operand,
                                    rms ? "row" : "row * 2 + 1"));
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
      const std::string sum = sum_over_row(made, "$0 * $1", {dy, weight}, step.op);
      phase(made).after.push_back(fmt::format("const float {} = {} * {};", mean_g, sum, share));
    }
    const std::string sum =
        sum_over_row(made, fmt::format("$0 * $1 * {}", centred("$2")), {dy, weight, x}, step.op);
    const std::string mean_gz = fmt::format("mean_gz_{}", number);
    phase(made).after.push_back(
        fmt::format("const float {} = {} * {} * {};", mean_gz, sum, saved.scale, share));
    if (step.outputs.size() > 1)
      sum_over_rows(step.outputs[1], made, fmt::format("$0 * {} * {}", centred("$1"), saved.scale),
                    {dy, x}, step.op);
    if (step.outputs.size() > 2) sum_over_rows(step.outputs[2], made, "$0", {dy}, step.op);
    set_operand(step.outputs[0], made + 1,
                fmt::format("{} * ($0 * $1{} - {} * {} * {})", saved.scale,
                            rms ? "" : " - " + mean_g, centred("$2"), saved.scale, mean_gz),
                {dy, weight, x}, step.op);
  }

  // ---- where values are kept

  // Leaves out what is made for nobody (a norm made again for its statistics alone), and notes when
  // values are read.
  void find_reads() {
    std::vector<Statement> needed;
    for (auto each = statements_.rbegin(); each != statements_.rend(); ++each) {
      if (each->kind == Statement::Kind::value) {
        const Value& value = values_[at(each->target)];
        if (value.read.empty() && !is_written(value.operand)) continue;
      }
      for (int id : each->arguments) values_[at(id)].read.insert(each->phase);
      needed.push_back(*each);
    }
    statements_.assign(needed.rbegin(), needed.rend());
  }

  // Sums and what steps made first; what was loaded is loaded again where there is no room. Rows
  // that all share stay in the caches.
  void find_homes() {
    registers_ = layout_.rows_at_once > 1 ? kept_by_warp : kept_by_block;
    for (int id : operands_of(true)) sum_home_[id] = home(true);
    for (const bool made : {true, false})
      for (Value& value : values_) {
        if (value.is_loaded == made || !value.is_kept()) continue;
        const bool shared_row = value.is_loaded && !fusion_.cut[at(value.operand)];
        value.home = shared_row ? Home::reloaded : home(made);
      }
  }

  std::int64_t bytes_in_shared() const {  // of a value, for the rows that a block works on at once
    return width_ * layout_.rows_at_once * bytes_of(Dtype::f32);
  }

  Home home(bool must) {
    if (registers_ >= layout_.elements()) {
      registers_ -= layout_.elements();
      return Home::registers;
    }
    if (!must) return Home::reloaded;
    kernel_.shared_bytes += bytes_in_shared();
    require(kernel_.shared_bytes <= kept_in_shared,
            fmt::format("what it keeps of a row of {} fits into no registers and shared memory",
                        width_));
    return Home::shared;
  }

  // ---- the text

  // An element of a value, or the first of a turn's `vector` ones.
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
    return element(fmt::format("v{}", value), values_[at(value)].home,
                   std::to_string(layout_.vector), first);
  }
  std::string element_of_sum(int operand, bool first = false) const {
    return element(fmt::format("total{}", operand), sum_home_.at(operand),
                   std::to_string(layout_.vector), first);
  }

  void line(const std::string& text) {
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      kernel_.source.append(at(2 * depth_), ' ');
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

  // An array of a thread's columns, or the row's in shared memory.
  void declare_kept(const std::string& name, Home home, const char* initial) {
    if (home == Home::registers)
      line(fmt::format("float {}[{}]{};", name, layout_.elements(), initial));
    if (home == Home::shared) {
      const std::string row =
          layout_.rows_at_once > 1 ? fmt::format(" + threadIdx.x / 32 * {}", width_) : "";
      line(fmt::format("float* const {} = kept + {}{};", name, shared_used_ / bytes_of(Dtype::f32),
                       row));
      shared_used_ += bytes_in_shared();
    }
  }

  // The loop over a thread's columns, unrolled where it numbers registers. Without a use of its
  // column, which compilers would warn of, it is not declared.
  void open_columns(bool in_registers) {
    line(in_registers ? "#pragma unroll" : "#pragma unroll 2");
    open(fmt::format("for (int turn = 0; turn < {}; ++turn)", layout_.turns));
    columns_begin_ = kernel_.source.size();
    guarded_ = std::int64_t{layout_.turns} * layout_.threads * layout_.vector != width_;
    if (guarded_) open(fmt::format("if (column < {})", width_));
  }
  void close_columns() {
    if (guarded_) close();
    if (kernel_.source.find("column", columns_begin_) != std::string::npos)
      kernel_.source.insert(
          columns_begin_,
          fmt::format("{}const int column = (turn * {} + thread) * {};\n",
                      std::string(at(2 * depth_), ' '), layout_.threads, layout_.vector));
    close();
  }
  void open_vector() {
    line("#pragma unroll");
    open(fmt::format("for (int j = 0; j < {}; ++j)", layout_.vector));
  }

  std::string written(const Statement& statement) const {
    std::string text;
    for (std::size_t i = 0; i < statement.text.size(); ++i) {
      if (statement.text[i] == '$')
        text += element(statement.arguments[static_cast<std::size_t>(statement.text[++i] - '0')]);
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

  bool is_written(int operand) const {
    return operand >= fusion_.inputs && operand < fusion_.inputs + fusion_.outputs;
  }

  bool is_in_registers(const Statement& statement) const {
    const auto kept = [&](int value) { return values_[at(value)].home == Home::registers; };
    if (std::any_of(statement.arguments.begin(), statement.arguments.end(), kept)) return true;
    if (statement.kind == Statement::Kind::over_row) return false;
    return statement.kind == Statement::Kind::value
               ? kept(statement.target)
               : sum_home_.at(statement.target) == Home::registers;
  }

  void write_phase(int number) {
    const Phase& of = phases_[at(number)];
    std::vector<const Statement*> statements;
    for (const Statement& each : statements_)
      if (each.phase == number) statements.push_back(&each);
    if (of.sums > 0) line(fmt::format("float sum_{}[{}] = {{}};", number, of.sums));
    if (!statements.empty()) write_columns(number, statements);
    if (of.sums > 0) line(fmt::format("add_over_row<{}>(sum_{});", layout_.threads, number));
    for (const std::string& text : of.after) line(text);
  }

  void write_columns(int number, const std::vector<const Statement*>& statements) {
    open_columns(std::any_of(statements.begin(), statements.end(),
                             [&](const Statement* each) { return is_in_registers(*each); }));
    for (int id = 0; id < static_cast<int>(values_.size()); ++id)
      if (values_[at(id)].is_loaded) write_load(id, number);
    for (const std::string& text : phases_[at(number)].before) line(text);
    for (const Statement* each : statements)
      if (each->kind == Statement::Kind::value && values_[at(each->target)].home == Home::phase)
        line(fmt::format("float v{}[{}];", each->target, layout_.vector));
    open_vector();
    for (const Statement* each : statements) line(written(*each));
    close();
    for (const Statement* each : statements) {
      if (each->kind != Statement::Kind::value) continue;
      const int operand = values_[at(each->target)].operand;
      if (is_written(operand))
        line(fmt::format("store<{}>(p{} + row * {} + column, {});", layout_.vector, operand, width_,
                         element(each->target, true)));
    }
    close_columns();
  }

  // Once, or in every phase that reads it.
  void write_load(int id, int number) {
    const Value& value = values_[at(id)];
    if (value.read.count(number) == 0) return;
    const bool first = number == value.begin();
    if (!first && value.home != Home::reloaded) return;
    if (value.home == Home::phase || value.home == Home::reloaded)
      line(fmt::format("float v{}[{}];", id, layout_.vector));
    line(fmt::format(
        "load<{}>({} + {}column, {});", layout_.vector,
        first ? fmt::format("p{}", value.operand) : fmt::format("again(p{})", value.operand),
        value.row_offset, element(id, true)));
  }

  std::string parameters() const {
    std::string text;
    const auto add = [&](const std::string& parameter) {
      text += (text.empty() ? "" : ",\n    ") + parameter;
    };
    for (int id : kernel_.operands)
      add(fmt::format("{}{}* __restrict__ p{}", is_written(id) ? "" : "const ",
                      type_name(type(id).dtype), id));
    if (kernel_.partial_bytes > 0) add("float* __restrict__ partial");
    if (kernel_.counts_positions)
      add("const long long* __restrict__ of_step, long long offset, int tensor_rank, int "
          "context_rank");
    for (std::size_t i = 0; i < kernel_.keys.size(); ++i)
      add(fmt::format("unsigned long long key_{}", i));
    return text;
  }

  void write() {
    const std::int64_t strips = (fusion_.rows + layout_.strip - 1) / layout_.strip;
    kernel_.operands = operands_of(false);
    kernel_.sums = operands_of(true);
    kernel_.threads = layout_.threads * layout_.rows_at_once;
    kernel_.blocks = (strips + layout_.rows_at_once - 1) / layout_.rows_at_once;
    kernel_.partial_bytes =
        static_cast<std::int64_t>(kernel_.sums.size()) * strips * width_ * bytes_of(Dtype::f32);
    line(fmt::format("// {}: {} rows of {}", meshwright::name_of(fusion_), fusion_.rows, width_));
    open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(\n    {})",
                     kernel_.threads, kernel_.name, parameters()));
    const bool warps = layout_.rows_at_once > 1;
    line(fmt::format("const int thread = threadIdx.x{};", warps ? " % 32" : ""));
    line(fmt::format("const long long {} = {};", layout_.strip == 1 ? "row" : "strip",
                     warps
                         ? fmt::format("blockIdx.x * {}LL + threadIdx.x / 32", layout_.rows_at_once)
                         : "blockIdx.x"));
    for (int id : kernel_.sums) declare_kept(fmt::format("total{}", id), sum_home_.at(id), " = {}");
    for (std::size_t i = 0; i < values_.size(); ++i)
      declare_kept(fmt::format("v{}", i), values_[i].home, "");
    clear_shared_sums();
    write_rows();
    write_partials(strips);
    close();
    if (!kernel_.sums.empty()) write_sums(strips);
  }

  void write_rows() {
    if (layout_.strip == 1) {
      open(fmt::format("if (row < {})", fusion_.rows));
    } else {
      line(
          fmt::format("const long long begin = strip * {0};\n"
                      "const long long end = begin + {0} < {1} ? begin + {0} : {1};",
                      layout_.strip, fusion_.rows));
      open("for (long long row = begin; row < end; ++row)");
    }
    for (const std::string& text : of_row_) line(text);
    for (int i = 0; i < static_cast<int>(phases_.size()); ++i) write_phase(i);
    close();
  }

  void clear_shared_sums() {
    for (int id : kernel_.sums) {
      if (sum_home_.at(id) != Home::shared) continue;
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
      line(fmt::format("store<{}>(partial + ({} + strip) * {} + column, {});", layout_.vector,
                       static_cast<std::int64_t>(i) * strips, width_,
                       element_of_sum(kernel_.sums[i], true)));
    close_columns();
    close();
  }

  // A column is a thread's; strips in order.
  void write_sums(std::int64_t strips) {
    kernel_.sum_threads = 128;
    kernel_.sum_blocks = (width_ + kernel_.sum_threads - 1) / kernel_.sum_threads;
    std::string parameters = "const float* __restrict__ partial";
    for (int id : kernel_.sums) parameters += fmt::format(", float* __restrict__ p{}", id);
    open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}_sums(\n    {})",
                     kernel_.sum_threads, kernel_.name, parameters));
    line(fmt::format("const int column = blockIdx.x * {} + threadIdx.x;", kernel_.sum_threads));
    line(fmt::format("if (column >= {}) return;", width_));
    for (std::size_t i = 0; i < kernel_.sums.size(); ++i) {
      const int id = kernel_.sums[i];
      line(fmt::format("float total{} = 0.0f;\n#pragma unroll 8", id));
      line(
          fmt::format("for (long long strip = 0; strip < {}; ++strip)\n"
                      "  total{} += partial[({} + strip) * {} + column];\n"
                      "p{}[column] += total{};",
                      strips, id, static_cast<std::int64_t>(i) * strips, width_, id, id));
    }
    close();
  }

  const Fusion& fusion_;
  FusedKernel kernel_;
  Layout layout_;
  std::int64_t width_ = 0, least_element_bytes_ = bytes_of(Dtype::f32);
  std::vector<Value> values_;
  std::vector<int> current_;  // per operand: the value that a step made last; -1: none
  std::map<std::pair<int, std::string>, int> loaded_;  // of operand and offset
  std::map<int, Saved> saved_;                         // of operand
  std::vector<std::string> of_row_;                    // declarations
  std::vector<Phase> phases_;
  std::vector<Statement> statements_;
  std::map<int, Home> sum_home_;
  int registers_ = 0;  // left
  std::int64_t shared_used_ = 0;
  int depth_ = 0;
  bool guarded_ = false;           // threads may have fewer columns than others
  std::size_t columns_begin_ = 0;  // of the text in a loop over columns
};

}  // namespace

FusedKernel fused_kernel(const Fusion& fusion, const std::string& name) {
  return Generator(fusion, name).kernel();
}

}  // namespace meshwright::cuda
