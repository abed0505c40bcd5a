#include "tools/interop/model_names.h"

#include <algorithm>
#include <cctype>

#include "models/architectures/model.h"

namespace meshwright::interop {

std::string zoo_name_of(const std::string& hub_name) {
  std::string name = hub_name;
  while (name.ends_with('/')) name.pop_back();
  name.erase(0, name.rfind('/') + 1);
  std::ranges::transform(name, name.begin(), [](unsigned char c) {
    return c == '_' ? '-' : static_cast<char>(std::tolower(c));
  });
  if (name.starts_with("meta-")) name.erase(0, 5);
  const auto known = [](const std::string& each) {
    return architectures::is_zoo_name(each) ? each : std::string();
  };
  // Tuned models have the shape of those that they were made from.
  for (int tries = 0; tries < 3; ++tries) {
    if (const std::string found = known(name); !found.empty()) return found;
    bool is_shorter = false;
    for (const std::string_view end :
         {"-hf", "-instruct", "-chat", "-base", "-it", "-v0.1", "-v0.3"})
      if (name.ends_with(end)) {
        name.resize(name.size() - end.size());
        is_shorter = true;
        break;
      }
    if (!is_shorter) break;
  }
  return known(name);
}

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
