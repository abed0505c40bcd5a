// Reads an own.model.json, key by key.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ranges>

#include "models/architectures/captured/captured_model.h"
#include "models/architectures/captured/kernel_words.h"
#include "models/architectures/model.h"
#include "models/core/error.h"
#include "models/core/hash.h"

namespace meshwright::architectures {

namespace {

using nlohmann::json;

constexpr int format = 1;
constexpr std::size_t most_items = 1'000'000;  // entries of one list
constexpr std::size_t most_degrees = 8;        // of tensor groups

class CapturedReader {
 public:
  CapturedReader(Fields fields, CapturedModel& model) : fields_(std::move(fields)), to_(model) {}

  void read() {
    read_head();
    for (Fields& each : list("inputs")) read_input(each);
    for (Fields& each : list("parameters")) read_parameter(each);
    parameters_ = to_.parameters.size();
    if (fields_.has("buffers"))
      for (Fields& each : list("buffers")) read_buffer(each);
    for (Fields& each : list("tensors")) read_tensor(each);
    for (Fields& each : list("kinds")) read_kind(each);
    for (Fields& each : list("segments")) read_segment(each);
    to_.loss = fields_.required<int>("loss");
    check_loss();
    freeze_what_is_not_learned();
    if (fields_.has("tensor_parallel"))
      for (Fields& each : list("tensor_parallel")) read_rank(each);
    fields_.done();
  }

  // Reads what one rank of a tensor group runs of the model `whole`.
  void read_of_rank(const CapturedModel& whole, std::size_t parameters) {
    to_ = whole;
    to_.on_ranks.clear();
    to_.tensors.clear();
    to_.kinds.clear();
    to_.segments.clear();
    parameters_ = parameters;
    to_.tensor_degree = number(fields_, "degree", 2, 1 << 16);
    to_.sequence_parallel = fields_.optional<bool>("sequence_parallel", false);
    for (Fields& each : list("cuts")) read_cut(each);
    to_.summed = indices(fields_, "summed", parameters_, "parameter");
    for (Fields& each : list("tensors")) read_tensor(each);
    for (Fields& each : list("kinds")) read_kind(each);
    for (Fields& each : list("segments")) read_segment(each);
    to_.loss = fields_.required<int>("loss");
    check_loss();
    fields_.done();
    to_.units = units_of(to_);
  }

 private:
  std::vector<Fields> list(std::string_view key) {
    std::vector<Fields> all = fields_.objects(key);
    if (all.size() > most_items) fields_.fail(key, "has more than a million entries");
    return all;
  }

  void read_head() {
    if (const int version = fields_.required<int>("captured"); version != format)
      fields_.fail("captured", "format " + std::to_string(version) +
                                   " is not known, this version reads format 1; capture the model "
                                   "again");
    to_.name = fields_.optional<std::string>("name", "captured");
    fields_.optional<std::string>("source", "");
    if (fields_.has("versions")) fields_.raw("versions");
    const std::vector<std::string> precisions = {"fp32", "bf16", "fp16", "fp64"};
    constexpr Precision known[] = {Precision::fp32, Precision::bf16, Precision::fp16,
                                   Precision::fp64};
    to_.precision = known[choose(fields_, "precision", "precision",
                                 fields_.required<std::string>("precision"), precisions)];
    to_.micro_batch = number(fields_, "micro_batch", 1, 1 << 24);
    to_.fixed_micro_batch = fields_.optional<std::string>("fixed_micro_batch", "");
    if (fields_.has("tokens_per_sample"))
      to_.tokens_per_sample = number(fields_, "tokens_per_sample", 0, 1 << 24);
  }

  void read_rank(Fields& fields) {
    auto rank = std::make_shared<CapturedModel>();
    CapturedReader(fields, *rank).read_of_rank(to_, parameters_);
    const auto same = [&](const auto& each) {
      return each->tensor_degree == rank->tensor_degree &&
             each->sequence_parallel == rank->sequence_parallel;
    };
    if (std::ranges::any_of(to_.on_ranks, same))
      fields.fail("degree", std::to_string(rank->tensor_degree) + " is there twice");
    if (to_.on_ranks.size() >= 2 * most_degrees)
      fields.fail("degree", "the file has more than " + std::to_string(most_degrees) + " degrees");
    to_.on_ranks.push_back(std::move(rank));
  }

  void read_cut(Fields& fields) {
    CapturedCut cut;
    cut.parameter = number(fields, "parameter", 0, static_cast<int>(parameters_) - 1);
    const Shape& shape = to_.parameters[static_cast<std::size_t>(cut.parameter)].shape;
    cut.axis = number(fields, "axis", 0, shape.rank - 1);
    std::int64_t sum = 0;
    for (const auto part : fields.required<std::vector<std::int64_t>>("parts")) {
      if (part < 1 || part % to_.tensor_degree != 0)
        fields.fail("parts", std::to_string(part) + " is not a multiple of degree " +
                                 std::to_string(to_.tensor_degree));
      sum += part;
      cut.parts.push_back(part);
    }
    if (sum != shape[cut.axis]) fields.fail("parts", "do not add up to the size of the axis");
    fields.done();
    to_.cuts.push_back(std::move(cut));
  }

  // Reads which exchange a segment is, if it is one.
  static std::optional<Op> read_exchange(Fields& fields) {
    if (!fields.has("collective")) return std::nullopt;
    constexpr Op known[] = {Op::tensor_copy, Op::tensor_reduce, Op::sequence_gather,
                            Op::sequence_scatter, Op::sequence_slice};
    std::vector<std::string> words;
    for (const Op op : known) words.emplace_back(info(op).name);
    return known[choose(fields, "collective", "collective",
                        fields.required<std::string>("collective"), words)];
  }

  static int number(Fields& fields, std::string_view key, int least, int most) {
    const int value = fields.required<int>(key);
    if (value < least || value > most)
      fields.fail(key, std::to_string(value) + " is out of range; use " + std::to_string(least) +
                           " to " + std::to_string(most));
    return value;
  }

  static double finite(const Fields& fields, std::string_view key, const json& value) {
    if (!value.is_number() || !(std::abs(value.get<double>()) <= 1e18))
      fields.fail(key, "must be a number of at most 1e18");
    return value.get<double>();
  }

  // Reads a number, or a pair [fixed, per sample]. Throws InputError if it is negative for some
  // micro-batch.
  Scaled scaled(Fields& fields, std::string_view key, double absent = 0) const {
    if (!fields.has(key)) return {absent, 0};
    const json& value = fields.raw(key);
    Scaled result;
    if (value.is_array()) {
      if (value.size() != 2) fields.fail(key, "a pair is [fixed, per sample]");
      result = {finite(fields, key, value[0]), finite(fields, key, value[1])};
    } else {
      result.fixed = finite(fields, key, value);
    }
    if (result.of(1) < 0 || result.per_sample < 0)
      fields.fail(key, "is negative for some micro-batch");
    return result;
  }

  // Returns the type in which gradients of a tensor are added. Returns nothing for a type that has
  // none of its own here, such as int64. Throws InputError for an unknown type.
  static std::optional<Dtype> dtype_of(Fields& fields) {
    struct Type {
      std::string_view word;
      Dtype dtype;
    };
    constexpr Type types[] = {{"float64", Dtype::f64},   {"float32", Dtype::f32},
                              {"bfloat16", Dtype::bf16}, {"float16", Dtype::f16},
                              {"complex64", Dtype::f32}, {"complex128", Dtype::f64}};
    const auto word = fields.required<std::string>("dtype");
    for (const Type& each : types)
      if (each.word == word) return each.dtype;
    size_of_type(fields, "dtype", word);
    return std::nullopt;
  }

  // Returns the number of elements of a shape. Throws InputError if a size is negative or the
  // number exceeds 1e15.
  static std::int64_t elements_of(Fields& fields, const std::vector<std::int64_t>& sizes) {
    double product = 1;
    for (const std::int64_t size : sizes) {
      if (size < 0) fields.fail("shape", "a size is negative");
      product *= static_cast<double>(size);
    }
    if (product > 1e15) fields.fail("shape", "more than 1e15 elements");
    std::int64_t elements = 1;
    for (const std::int64_t size : sizes) elements *= size;
    return elements;
  }

  void read_input(Fields& fields) {
    CapturedInput input{fields.required<std::string>("name"), {}};
    const auto sizes = fields.required<std::vector<std::int64_t>>("shape");
    const std::int64_t bytes = elements_of(fields, sizes) *
                               size_of_type(fields, "dtype", fields.required<std::string>("dtype"));
    input.bytes.fixed = static_cast<double>(bytes);
    if (fields.has("batch_axis")) {
      const int axis = number(fields, "batch_axis", 0, static_cast<int>(sizes.size()) - 1);
      const std::int64_t samples = std::max<std::int64_t>(1, sizes[static_cast<std::size_t>(axis)]);
      const double each = static_cast<double>(samples) / to_.micro_batch;
      input.bytes = {0, static_cast<double>(bytes) / static_cast<double>(samples) * each};
    }
    fields.done();
    to_.inputs.push_back(std::move(input));
  }

  CapturedParameter parameter_of(Fields& fields) {
    CapturedParameter parameter;
    parameter.name = fields.required<std::string>("name");
    const auto sizes = fields.required<std::vector<std::int64_t>>("shape");
    const std::int64_t elements = elements_of(fields, sizes);
    size_of_type(fields, "dtype", fields.required<std::string>("dtype"));
    if (elements == 0) fields.fail("shape", "a parameter has at least one element");
    Shape& shape = parameter.shape;
    std::int64_t rest = elements;  // elements of the dimensions that follow
    for (std::size_t i = 0; i + 1 < shape.dims.size() && i < sizes.size(); rest /= sizes[i++])
      shape.dims[static_cast<std::size_t>(shape.rank++)] = sizes[i];
    if (shape.rank == 0 || rest > 1) shape.dims[static_cast<std::size_t>(shape.rank++)] = rest;
    return parameter;
  }

  void read_parameter(Fields& fields) {
    CapturedParameter parameter = parameter_of(fields);
    parameter.trainable = fields.optional<bool>("trainable", true);
    if (fields.has("decays")) parameter.decays = fields.required<bool>("decays");
    if (fields.has("tied")) fields.required<std::vector<std::string>>("tied");
    fields.done();
    to_.parameters.push_back(std::move(parameter));
  }

  void read_buffer(Fields& fields) {
    CapturedParameter buffer;
    buffer.name = fields.required<std::string>("name");
    const std::int64_t elements =
        elements_of(fields, fields.required<std::vector<std::int64_t>>("shape"));
    const std::int64_t bytes =
        elements * size_of_type(fields, "dtype", fields.required<std::string>("dtype"));
    const std::int64_t size = bytes_of(storage_of(to_.precision));
    buffer.shape = Shape{std::max<std::int64_t>(1, (bytes + size - 1) / size)};
    buffer.trainable = buffer.counted = false;
    fields.optional<bool>("written", false);
    fields.done();
    to_.parameters.push_back(std::move(buffer));
  }

  void read_tensor(Fields& fields) {
    CapturedTensor tensor;
    tensor.bytes = scaled(fields, "bytes");
    tensor.has_gradient = fields.optional<bool>("gradient", false);
    if (fields.has("dtype")) tensor.dtype = dtype_of(fields);
    for (const std::string_view key : {"shape", "batch_axis"})
      if (fields.has(key)) fields.raw(key);
    fields.done();
    to_.tensors.push_back(tensor);
  }

  CapturedKernel read_kernel(Fields& fields) const {
    CapturedKernel kernel;
    kernel.kind = read_kernel_kind(fields);
    if (fields.has("op")) fields.required<std::string>("op");
    kernel.causal = fields.optional<bool>("causal", false);
    kernel.precision = read_kernel_precision(fields);
    kernel.m = scaled(fields, "m");
    kernel.n = scaled(fields, "n");
    kernel.k = scaled(fields, "k");
    kernel.batch = scaled(fields, "batch", 1);
    kernel.flops = scaled(fields, "flops");
    kernel.bytes = scaled(fields, "bytes");
    fields.done();
    return kernel;
  }

  std::vector<CapturedKernel> read_kernels(Fields& fields, std::string_view key) const {
    std::vector<CapturedKernel> kernels;
    if (fields.has(key))
      for (Fields& each : fields.objects(key)) kernels.push_back(read_kernel(each));
    return kernels;
  }

  CapturedWork read_work(Fields& fields) const {
    CapturedWork work;
    work.forward = read_kernels(fields, "forward");
    work.backward = read_kernels(fields, "backward");
    work.saved = scaled(fields, "saved");
    if (fields.has("workspace")) {
      Fields workspace = fields.object("workspace");
      work.forward_workspace = scaled(workspace, "forward");
      work.backward_workspace = scaled(workspace, "backward");
      workspace.done();
    }
    return work;
  }

  void read_kind(Fields& fields) {
    SegmentKind kind;
    fields.optional<bool>("random", false);
    if (fields.has("data_decides")) fields.required<std::string>("data_decides");
    if (fields.has("operations")) fields.raw("operations");
    kind.eager = read_work(fields);
    kind.compiled = kind.eager;
    if (fields.has("compiled")) {
      Fields compiled = fields.object("compiled");
      kind.compiled = read_work(compiled);
      compiled.done();
    }
    fields.done();
    to_.kinds.push_back(std::move(kind));
  }

  // Reads a list of indices below `count`, and adds `shift` to each. Throws InputError for other
  // indices.
  static std::vector<int> indices(Fields& fields, std::string_view key, std::size_t count,
                                  std::string_view what, std::size_t shift = 0) {
    std::vector<int> all;
    if (!fields.has(key)) return all;
    for (const int index : fields.required<std::vector<int>>(key)) {
      if (index < 0 || static_cast<std::size_t>(index) >= count)
        fields.fail(key, "there is no " + std::string(what) + " " + std::to_string(index) +
                             "; the file has " + std::to_string(count));
      all.push_back(index + static_cast<int>(shift));
    }
    return all;
  }

  void read_segment(Fields& fields) {
    CapturedSegment segment;
    segment.module = fields.optional<std::string>("module", "");
    segment.exchange = read_exchange(fields);
    segment.gradient_is_whole = fields.optional<bool>("gradient_is_whole", false);
    if (!segment.exchange)
      segment.kind = number(fields, "kind", 0, std::max(0, static_cast<int>(to_.kinds.size()) - 1));
    segment.inputs = indices(fields, "inputs", to_.inputs.size(), "input");
    segment.parameters = indices(fields, "parameters", parameters_, "parameter");
    for (const int buffer :
         indices(fields, "buffers", to_.parameters.size() - parameters_, "buffer", parameters_))
      segment.parameters.push_back(buffer);
    segment.reads = indices(fields, "reads", to_.tensors.size(), "tensor");
    segment.makes = indices(fields, "makes", to_.tensors.size(), "tensor");
    segment.saves = indices(fields, "saves", to_.tensors.size(), "tensor");
    const int own = static_cast<int>(to_.segments.size());
    for (const int tensor : segment.reads)
      if (maker(tensor) < 0)
        fields.fail("reads", "no earlier segment makes tensor " + std::to_string(tensor));
    for (const int tensor : segment.makes) {
      if (maker(tensor) >= 0)
        fields.fail("makes", "tensor " + std::to_string(tensor) + " has a maker already");
      to_.tensors[static_cast<std::size_t>(tensor)].maker = own;
    }
    for (const int tensor : segment.saves)
      if (std::ranges::count(segment.reads, tensor) + std::ranges::count(segment.makes, tensor) ==
          0)
        fields.fail("saves",
                    "the segment neither reads nor makes tensor " + std::to_string(tensor));
    if (segment.exchange) check_exchange(fields, segment);
    fields.done();
    to_.segments.push_back(std::move(segment));
  }

  void check_exchange(const Fields& fields, const CapturedSegment& segment) {
    if (to_.tensor_degree == 1)
      fields.fail("collective", "is for the segments of `tensor_parallel`");
    if (segment.reads.size() != 1 || segment.makes.size() != 1 || !segment.parameters.empty() ||
        !segment.inputs.empty())
      fields.fail("collective", "an exchange reads one tensor and makes one, and nothing else");
    for (const int tensor : {segment.reads[0], segment.makes[0]})
      to_.tensors[static_cast<std::size_t>(tensor)].is_exchanged = true;
  }

  int maker(int tensor) const { return to_.tensors[static_cast<std::size_t>(tensor)].maker; }

  void check_loss() const {
    if (to_.segments.empty()) fields_.fail("segments", "is empty; a model has at least one");
    const bool is_there = to_.loss >= 0 && to_.loss < static_cast<int>(to_.tensors.size());
    if (!is_there || maker(to_.loss) < 0)
      fields_.fail("loss", "no segment makes tensor " + std::to_string(to_.loss));
    if (to_.tensors[static_cast<std::size_t>(to_.loss)].bytes.of(to_.micro_batch) > 16)
      fields_.fail("loss", "tensor " + std::to_string(to_.loss) + " is larger than one number");
  }

  // Marks parameters as not trained if no gradient leads from them to the loss, such as those of a
  // network that runs without gradients.
  void freeze_what_is_not_learned() {
    std::vector<bool> wanted(to_.tensors.size()), learned(to_.parameters.size());
    wanted[static_cast<std::size_t>(to_.loss)] = true;
    const auto is_wanted = [&](int tensor) { return wanted[static_cast<std::size_t>(tensor)]; };
    for (const CapturedSegment& segment : to_.segments | std::views::reverse) {
      if (std::ranges::none_of(segment.makes, is_wanted)) continue;
      for (const int tensor : segment.reads)
        if (to_.tensors[static_cast<std::size_t>(tensor)].has_gradient)
          wanted[static_cast<std::size_t>(tensor)] = true;
      for (const int parameter : segment.parameters)
        learned[static_cast<std::size_t>(parameter)] = true;
    }
    for (std::size_t i = 0; i < learned.size(); ++i)
      to_.parameters[i].trainable = to_.parameters[i].trainable && learned[i];
  }

  Fields fields_;
  CapturedModel& to_;
  std::size_t parameters_ = 0;  // without buffers
};

// Returns the names and shapes of the weights, and which of them are frozen. A checkpoint fits
// every model for which this text is equal, whatever version of PyTorch captured it, and with
// however many samples.
std::string text_of_weights(const CapturedModel& model) {
  std::string text;
  for (const CapturedParameter& each : model.parameters) {
    if (!each.counted) continue;
    text += each.name + (each.trainable ? " " : " frozen ");
    for (int i = 0; i < each.shape.rank; ++i)
      text += std::to_string(each.shape.dims[static_cast<std::size_t>(i)]) + ",";
    text += "\n";
  }
  return text;
}

// Fills in the sizes that rules about plans read.
void describe(Model& model, const CapturedModel& captured) {
  model.hidden = model.heads = model.kv_heads = model.ffn = model.head_dim = 1;
  model.tied_embeddings = false;
  model.positions = captured.tokens_per_sample;
  model.layers = static_cast<int>(std::max<std::ptrdiff_t>(
      1, std::ranges::count(captured.units, true, &CapturedUnit::is_block)));
}

}  // namespace

bool is_captured(Fields& fields) { return fields.has("captured"); }

Model read_captured(Fields fields) {
  auto captured = std::make_shared<CapturedModel>();
  CapturedReader(std::move(fields), *captured).read();
  captured->hash = std::to_string(hash_of(text_of_weights(*captured)));
  captured->units = units_of(*captured);
  Model model;
  model.name = captured->name;
  describe(model, *captured);
  model.captured = std::move(captured);
  return model;
}

}  // namespace meshwright::architectures
