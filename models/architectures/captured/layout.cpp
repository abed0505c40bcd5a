// Lays a captured model out as a graph of segments for one micro-batch.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "models/architectures/captured/captured_model.h"
#include "models/architectures/model.h"
#include "models/core/error.h"
#include "models/program/graph/graph.h"
#include "models/program/graph/segment.h"

namespace meshwright::architectures {

namespace {

// Returns the type of memory of which only the number of bytes is known.
TensorType memory(double bytes) {
  return {Shape{static_cast<std::int64_t>(std::ceil(bytes / 4))}, Dtype::i32};
}

std::int64_t whole(const Scaled& number, int micro_batch) {
  return static_cast<std::int64_t>(std::llround(number.of(micro_batch)));
}

class CapturedLayout {
 public:
  CapturedLayout(const Model& model, const Training& training)
      : from_(*model.captured),
        training_(training),
        samples_(training.micro_batch),
        dtype_(storage_of(training.precision)) {
    graph_.vocabulary = model.vocabulary;
    graph_.micro_batch = samples_;
    graph_.sequence_length = training.sequence_length;
    graph_.precision = training.precision;
    graph_.compiler = training.compiler;
    graph_.tensor_degree = from_.tensor_degree;
    if (from_.tensor_degree > 1)
      graph_.held = Held::columns;  // what crosses may be a part of a rank
    made_.assign(from_.tensors.size(), -1);
    parameters_.assign(from_.parameters.size(), -1);
  }

  Graph lay_out() {
    for (const CapturedInput& input : from_.inputs)
      graph_.captured.push_back(graph_.add_tensor(memory(input.bytes.of(samples_)), Role::input));
    graph_.targets = graph_.add_tensor({Shape{samples_}, Dtype::i32}, Role::input);
    for (const CapturedUnit& unit : from_.units) {
      unit_ = graph_.add_unit(unit.path, unit.is_block);
      modules_.clear();
      for (int i = unit.begin; i < unit.end; ++i) add(i);
    }
    const int maker = graph_.tensor(made(from_.loss)).producer;
    graph_.loss = graph_.output(graph_.add(Op::segment_loss,
                                           graph_.nodes[static_cast<std::size_t>(maker)].module,
                                           {made(from_.loss)}, attributes()));
    return std::move(graph_);
  }

 private:
  int made(int tensor) const { return made_[static_cast<std::size_t>(tensor)]; }
  const CapturedTensor& tensor(int index) const {
    return from_.tensors[static_cast<std::size_t>(index)];
  }

  Attributes attributes() const {
    Attributes a;
    a.micro_batch = training_.micro_batch;
    a.sequence_length = training_.sequence_length;
    a.made = training_.exact_type();  // of the loss
    return a;
  }

  TensorType type_of(int index) const {
    const double bytes = tensor(index).bytes.of(samples_);
    if (index == from_.loss) return {Shape{1}, dtype_};
    const bool is_exchanged = tensor(index).is_exchanged;
    if (!tensor(index).has_gradient && !is_exchanged) return memory(bytes);
    const Dtype dtype = tensor(index).dtype.value_or(dtype_);
    const double size = static_cast<double>(bytes_of(dtype));
    const auto elements = static_cast<std::int64_t>(std::ceil(bytes / size));
    return {is_exchanged ? Shape{elements, 1} : Shape{elements}, dtype};
  }

  int module(const std::string& path) {
    const auto [found, is_new] = modules_.try_emplace(path, 0);
    if (is_new)
      found->second = graph_.add_module(
          path.empty() ? graph_.units[static_cast<std::size_t>(unit_)].path : path, unit_);
    return found->second;
  }

  int parameter(int index) {
    int& tensor = parameters_[static_cast<std::size_t>(index)];
    if (tensor >= 0) return tensor;
    const CapturedParameter& from = from_.parameters[static_cast<std::size_t>(index)];
    Parameter p;
    p.name = from.name;
    p.global_shape = p.padded_shape = p.shape = from.shape;
    p.dtype = dtype_;
    p.trainable = from.trainable;
    p.counted = from.counted;
    p.decay = from.decays.value_or(from.shape.rank >= 2);
    divide(index, p);
    return tensor = graph_.add_parameter(std::move(p));
  }

  // Cuts a parameter as the ranks of a tensor group share it.
  void divide(int index, Parameter& p) const {
    p.partial_over_tensor = std::ranges::count(from_.summed, index) > 0;
    for (const CapturedCut& cut : from_.cuts) {
      if (cut.parameter != index) continue;
      p.cut = {cut.axis, cut.parts};
      p.is_cut = true;
      p.shape[cut.axis] /= from_.tensor_degree;
    }
  }

  std::vector<Kernel> kernels(const std::vector<CapturedKernel>& from, bool backward) const {
    std::vector<Kernel> kernels;
    for (const CapturedKernel& each : from) {
      Kernel kernel;
      kernel.kind = each.kind;
      kernel.m = whole(each.m, samples_);
      kernel.n = whole(each.n, samples_);
      kernel.k = whole(each.k, samples_);
      kernel.batch = std::max<std::int64_t>(1, whole(each.batch, samples_));
      kernel.flops = each.flops.of(samples_) * (each.causal ? 0.5 : 1);
      kernel.bytes = each.bytes.of(samples_);
      kernel.precision = each.precision;
      kernel.backward = backward && each.kind == Kernel::Kind::attention;
      kernels.push_back(kernel);
    }
    return kernels;
  }

  double flops_of(const std::vector<CapturedKernel>& kernels) const {
    double flops = 0;
    for (const CapturedKernel& each : kernels) flops += each.flops.of(samples_);
    return flops;
  }

  void exchange(const CapturedSegment& from) {
    Attributes a = attributes();
    a.tensor_degree = from_.tensor_degree;
    a.gradient_is_whole = from.gradient_is_whole;
    made_[static_cast<std::size_t>(from.makes[0])] =
        graph_.output(graph_.add(*from.exchange, module(from.module), {made(from.reads[0])}, a));
  }

  void add(int number) {
    const CapturedSegment& from = from_.segments[static_cast<std::size_t>(number)];
    if (from.exchange) return exchange(from);
    const SegmentKind& kind = from_.kinds[static_cast<std::size_t>(from.kind)];
    const CapturedWork& work =
        training_.compiler == CompilerLevel::none ? kind.eager : kind.compiled;
    Segment segment;
    segment.name = from.module.empty() ? "segment" : from.module;
    segment.number = number;
    segment.parameters = static_cast<int>(from.parameters.size());
    segment.makes = static_cast<int>(from.makes.size());
    TensorIds inputs;
    for (const int index : from.parameters) {
      inputs.push_back(parameter(index));
      segment.kept.push_back(inputs.size() - 1);
    }
    for (const int index : from.reads) {
      const int place = inputs.size();
      inputs.push_back(made(index));
      if (std::ranges::count(from.saves, index) > 0) segment.kept.push_back(place);
      if (!tensor(index).has_gradient) continue;
      segment.differentiated.push_back(place);
      segment.gradients.push_back(type_of(index));
    }
    for (const int index : from.inputs)
      inputs.push_back(graph_.captured[static_cast<std::size_t>(index)]);
    for (const int index : from.makes) {
      const int place = static_cast<int>(segment.outputs.size());
      segment.outputs.push_back(type_of(index));
      if (std::ranges::count(from.saves, index) > 0) segment.kept.push_back(-1 - place);
      if (tensor(index).has_gradient || index == from_.loss)
        segment.differentiable.push_back(place);
    }
    if (const double saved = work.saved.of(samples_); saved > 0) {
      segment.saves = true;
      segment.kept.push_back(-1 - static_cast<int>(segment.outputs.size()));
      segment.outputs.push_back(memory(saved));
    }
    if (const double bytes = work.forward_workspace.of(samples_); bytes > 0)
      segment.outputs.push_back(memory(bytes));
    if (const double bytes = work.backward_workspace.of(samples_); bytes > 0)
      segment.gradients.push_back(memory(bytes));
    if (segment.outputs.empty()) segment.outputs.push_back(memory(4));  // it only writes a buffer
    segment.forward = kernels(work.forward, false);
    segment.backward = kernels(work.backward, true);
    segment.forward_flops = flops_of(work.forward);
    segment.backward_flops = flops_of(work.backward);
    Attributes a = attributes();
    a.segment = std::make_shared<const Segment>(std::move(segment));
    const int node = graph_.add(Op::segment, module(from.module), inputs, a);
    for (std::size_t i = 0; i < from.makes.size(); ++i)
      made_[static_cast<std::size_t>(from.makes[i])] = graph_.output(node, static_cast<int>(i));
  }

  const CapturedModel& from_;
  const Training& training_;
  const int samples_;
  const Dtype dtype_;
  Graph graph_;
  std::vector<int> made_;        // graph tensor of each captured tensor; -1: none yet
  std::vector<int> parameters_;  // graph tensor of each parameter; -1: none yet
  std::map<std::string, int> modules_;
  int unit_ = 0;
};

}  // namespace

CapturedModel without_kept_by_torch(CapturedModel model) {
  for (auto& each : model.on_ranks)
    each = std::make_shared<const CapturedModel>(without_kept_by_torch(*each));
  for (SegmentKind& kind : model.kinds)
    for (CapturedWork* work : {&kind.eager, &kind.compiled})
      work->saved = work->forward_workspace = work->backward_workspace = {};
  return model;
}

Graph lay_out_captured(const Model& model, const Training& training) {
  return CapturedLayout(model, training).lay_out();
}

}  // namespace meshwright::architectures
