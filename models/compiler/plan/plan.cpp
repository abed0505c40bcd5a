#include "models/compiler/plan/plan.h"

#include "models/compiler/schedule/schedule.h"
#include "models/core/enum_words.h"
#include "models/core/names_in.h"

namespace meshwright::compiler {

namespace {

template <class Enum>
const std::string& word(const std::vector<std::string>& names, Enum value) {
  return names.at(static_cast<std::size_t>(value));
}

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = names_in(schedule_kinds());
  return names;
}

const std::vector<std::string>& recompute_names() {
  static const std::vector<std::string> names =
      words_up_to<Recompute::group>({"none", "selective", "full", "each", "contiguous", "group_N"});
  return names;
}

const std::vector<std::string>& tensor_layout_names() {
  static const std::vector<std::string> names =
      words_up_to<TensorLayout::memory>({"megatron", "speed", "memory"});
  return names;
}

const std::vector<std::string>& context_exchange_names() {
  static const std::vector<std::string> names =
      words_up_to<ContextExchange::a2a_p2p>({"p2p", "all_gather", "all_to_all", "a2a+p2p"});
  return names;
}

const std::vector<std::string>& expert_dispatch_names() {
  static const std::vector<std::string> names =
      words_up_to<ExpertDispatch::deduplicated>({"all_to_all", "deduplicated"});
  return names;
}

const std::vector<std::string>& offload_names() {
  static const std::vector<std::string> names =
      words_up_to<Offload::optimizer>({"none", "activations", "layers", "optimizer"});
  return names;
}

const std::vector<std::string>& reduce_gradients_names() {
  static const std::vector<std::string> names =
      words_up_to<ReduceGradients::last>({"default", "each", "last"});
  return names;
}

const std::vector<std::string>& base_weights_names() {
  static const std::vector<std::string> names =
      words_up_to<BaseWeights::int4>({"unquantized", "nf4", "int4"});
  return names;
}

const std::vector<std::string>& fp8_recipe_names() {
  static const std::vector<std::string> names =
      words_up_to<Fp8Recipe::mxfp8>({"delayed", "tensorwise", "blockwise", "mxfp8"});
  return names;
}

const std::vector<std::string>& memory_of_names() {
  static const std::vector<std::string> names =
      words_up_to<MemoryOf::xla>({"engine", "pytorch", "xla"});
  return names;
}

StageLayout Parallelism::stage_layout() const {
  return {pipeline, virtual_stages, schedule_info(schedule).stage_shape};
}

std::string recompute_word(const Training& training) {
  if (training.recompute == Recompute::group)
    return "group_" + std::to_string(training.recompute_group);
  return word(recompute_names(), training.recompute);
}

}  // namespace meshwright::compiler
