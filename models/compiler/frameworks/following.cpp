#include "models/compiler/frameworks/following.h"

namespace meshwright::compiler {

bool follows_other_keys(std::string_view key) {
  return key == "training.gradient_reduce_precision";
}

Plan with_what_follows(Framework framework, Plan plan, const Model& model) {
  for (const Limit& limit : limits_of(framework))
    if (follows_other_keys(limit.key) && limit.mend != nullptr && !limit.holds(plan, model))
      limit.mend(plan, model);
  return plan;
}

}  // namespace meshwright::compiler
