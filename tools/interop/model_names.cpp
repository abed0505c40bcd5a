#include "tools/interop/model_names.h"

#include "models/architectures/hub_names.h"

namespace meshwright::interop {

void take_named_model(Settings& from, const std::string& setting, JobDraft& to) {
  const auto name = from.word(setting);
  if (!name || to.has("model")) return;
  const std::string found = zoo_name_of(*name);
  if (found.empty()) {
    to.ask("model", from.spelled(setting) + " " + *name + " is not in the zoo");
    return;
  }
  to.set("model", found);
  to.remark(from.spelled(setting) + " " + *name + ": the shape of " + found +
            " of the zoo is taken");
}

}  // namespace meshwright::interop
