// Finds what one rank of a tensor group runs of a captured model.
#include <memory>

#include "models/architectures/build_of_rank.h"
#include "models/architectures/captured/captured_model.h"
#include "models/core/error.h"
#include "models/program/graph/graph.h"

namespace meshwright::architectures {

const CapturedModel& of_rank(const CapturedModel& model, int tensor, bool sequence_parallel) {
  if (tensor == 1) return model;
  for (const auto& each : model.on_ranks)
    if (each->tensor_degree == tensor && each->sequence_parallel == sequence_parallel) return *each;
  throw InputError("the model was not captured for tensor " + std::to_string(tensor) +
                   (sequence_parallel ? " with sequence parallelism" : "") +
                   "; capture it again with --tensor " + std::to_string(tensor));
}

Graph build_graph_of_rank(const Model& model, const Training& training, int tensor,
                          bool sequence_parallel) {
  if (!model.captured || tensor == 1) return build_graph(model, training);
  Model of_one = model;
  const CapturedModel& rank = of_rank(*model.captured, tensor, sequence_parallel);
  of_one.captured = std::shared_ptr<const CapturedModel>(model.captured, &rank);
  return build_graph(of_one, training);
}

}  // namespace meshwright::architectures
