#include "models/compiler/lower/moment_blocks.h"

#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

// Returns the length, in elements, of a run of consecutive elements of the whole parameter that a
// rank holds and that is not a whole number of blocks. Returns 0 if all runs are.
std::int64_t odd_run(const Parameter& parameter, int tensor) {
  const auto odd = [](std::int64_t run) { return run % moment_block == 0 ? 0 : run; };
  if (parameter.is_cut) {
    std::int64_t inner = 1;
    for (int dim = parameter.cut.dim + 1; dim < parameter.shape.rank; ++dim)
      inner *= parameter.shape[dim];
    for (const std::int64_t segment : parameter.cut.segments)
      if (const std::int64_t found = odd(segment / tensor * inner); found > 0) return found;
  }
  return parameter.is_cut_by_experts ? odd(parameter.shape.elements()) : 0;
}

// Returns whether rows end in padding. The amount of padding depends on the degrees, so padding in
// rows would move the blocks. Padding after all rows does not.
bool has_padding_in_rows(const Parameter& parameter) {
  const Shape &padded = parameter.padded_shape, &global = parameter.global_shape;
  if (padded.rank != global.rank) return false;
  for (int dim = 1; dim < padded.rank; ++dim)
    if (padded[dim] != global[dim]) return true;
  return false;
}

}  // namespace

std::int64_t alignment_of_states(const Plan& plan) {
  return is_in_blocks(plan.training.moments) ? moment_block : 64;
}

void check_blocks(const Graph& graph, const Plan& plan) {
  if (!is_in_blocks(plan.training.moments)) return;
  for (const Parameter& parameter : graph.parameters) {
    if (!parameter.trainable) continue;
    const std::int64_t run = odd_run(parameter, plan.parallelism.tensor);
    if (run == 0 && !has_padding_in_rows(parameter)) continue;
    const std::string_view key = parameter.is_cut_by_experts && !parameter.is_cut
                                     ? "/parallelism/expert"
                                     : "/parallelism/tensor";
    const std::string begin =
        "moments_precision '8bit' has a scale for every {} elements, and a rank would hold ";
    const std::string end =
        "; use 1, a degree that leaves multiples of {}, or moments_precision 'bf16'";
    throw InputError(run > 0 ? broken(key, begin + "{} neighbouring ones of {}" + end, moment_block,
                                      run, parameter.name, moment_block)
                             : broken(key, begin + "rows of {} that end in padding" + end,
                                      moment_block, parameter.name, moment_block));
  }
}

}  // namespace meshwright::compiler
