#include "tools/other_options.h"

#include <algorithm>

#include "models/core/error.h"
#include "models/core/other_words.h"

namespace meshwright::tools {

namespace {

// Pairs options of other programs with the options of meshwright that have the same purpose.
struct OtherOption {
  const char *name, *here;
};
constexpr OtherOption other_options[] = {{"nodes", "count"},
                                         {"num-nodes", "count"},
                                         {"nnodes", "count"},
                                         {"hosts", "count"},
                                         {"instances", "count"},
                                         {"instance-count", "count"},
                                         {"machine", "on"},
                                         {"machines", "on"},
                                         {"instance", "on"},
                                         {"instance-type", "on"},
                                         {"gpu", "on"},
                                         {"gpus", "on"},
                                         {"gpu-type", "on"},
                                         {"num-gpus", "on"},
                                         {"cluster", "on"},
                                         {"hardware", "on"},
                                         {"cloud", "on"},
                                         {"seq-len", "length"},
                                         {"seq-length", "length"},
                                         {"seqlen", "length"},
                                         {"sequence-length", "length"},
                                         {"max-length", "length"},
                                         {"max-seq-length", "length"},
                                         {"context", "length"},
                                         {"context-length", "length"},
                                         {"batch-size", "batch"},
                                         {"global-batch", "batch"},
                                         {"global-batch-size", "batch"},
                                         {"gbs", "batch"},
                                         {"deadline", "by"},
                                         {"time", "by"},
                                         {"within", "by"},
                                         {"until", "by"},
                                         {"max-time", "by"},
                                         {"cost", "budget"},
                                         {"max-cost", "budget"},
                                         {"money", "budget"},
                                         {"usd", "budget"},
                                         {"framework", "for"},
                                         {"config", "model"},
                                         {"model-name", "model"},
                                         {"model-name-or-path", "model"},
                                         {"max-steps", "steps"},
                                         {"train-iters", "steps"},
                                         {"iterations", "steps"},
                                         {"out", "write"},
                                         {"output", "write"},
                                         {"save", "write"}};

}  // namespace

std::string option_meant(const std::string& option, const std::vector<std::string>& known) {
  std::string name = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  std::ranges::replace(name, '_', '-');
  const auto has = [&](const std::string& each) {
    return std::ranges::find(known, each) != known.end();
  };
  if (has("--" + name)) return "'--" + name + "'";
  for (const OtherOption& row : other_options)
    if (name == row.name && has(std::string("--") + row.here))
      return std::string("'--") + row.here + "'";
  if (!has("--set")) return "";
  std::vector<std::string> keys = job_keys_for(name);
  for (std::string& key : keys) key = "'--set " + key + "=...'";
  return list_of(keys, "or");
}

}  // namespace meshwright::tools
