// Checks the words of custom_mpi_options against a table of known options.
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <span>

#include "models/core/error.h"
#include "models/core/names_in.h"
#include "models/core/printable.h"
#include "models/job/distribution.h"
#include "models/job/mpi_settings.h"

namespace meshwright::job {

namespace {

enum class Effect : std::uint8_t { passed_on, refused };

struct Option {
  std::string_view name;
  int arguments;
  Effect effect;
};

constexpr std::string_view own_work =
    "says how many processes run where, which follows from the cluster; remove it";

constexpr std::array<Option, 36> options = {{
    {"-x", 1, Effect::passed_on},
    {"-mca", 2, Effect::passed_on},
    {"--mca", 2, Effect::passed_on},
    {"-gmca", 2, Effect::passed_on},
    {"--gmca", 2, Effect::passed_on},
    {"--NCCL_DEBUG", 1, Effect::passed_on},
    {"-verbose", 0, Effect::passed_on},
    {"--verbose", 0, Effect::passed_on},
    {"-v", 0, Effect::passed_on},
    {"-q", 0, Effect::passed_on},
    {"--quiet", 0, Effect::passed_on},
    {"--display-map", 0, Effect::passed_on},
    {"--tag-output", 0, Effect::passed_on},
    {"-tag-output", 0, Effect::passed_on},
    {"--timestamp-output", 0, Effect::passed_on},
    {"--report-bindings", 0, Effect::passed_on},
    {"--oversubscribe", 0, Effect::passed_on},
    {"--allow-run-as-root", 0, Effect::passed_on},
    {"-bind-to", 1, Effect::passed_on},
    {"--bind-to", 1, Effect::passed_on},
    {"-map-by", 1, Effect::refused},
    {"--map-by", 1, Effect::refused},
    {"-rank-by", 1, Effect::refused},
    {"--rank-by", 1, Effect::refused},
    {"-np", 1, Effect::refused},
    {"--np", 1, Effect::refused},
    {"-n", 1, Effect::refused},
    {"-c", 1, Effect::refused},
    {"-N", 1, Effect::refused},
    {"--npernode", 1, Effect::refused},
    {"-host", 1, Effect::refused},
    {"--host", 1, Effect::refused},
    {"-H", 1, Effect::refused},
    {"-hostfile", 1, Effect::refused},
    {"--hostfile", 1, Effect::refused},
    {"--machinefile", 1, Effect::refused},
}};

// The launcher sets this parameter itself, and Open MPI aborts if it is given twice.
constexpr std::string_view repeated_parameter = "btl_vader_single_copy_mechanism";

// Prefixes of environment variables of SageMaker's libraries. They have no effect here, so a job
// that sets them gets a warning.
constexpr std::array<std::string_view, 2> foreign_variables = {"SMP_", "SMDDP_"};
// Prefixes of environment variables of libfabric and of the network devices below it. They have no
// effect on machines without EFA, so a job that sets them for one gets a warning.
constexpr std::array<std::string_view, 2> fabric_variables = {"FI_", "RDMAV_"};

bool begins_with_one(std::string_view name, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::size_t begin = text.find_first_not_of(" \t\n");
  while (begin != std::string::npos) {
    const std::size_t end = std::min(text.find_first_of(" \t\n", begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(" \t\n", end);
  }
  return words;
}

const Option& known_option(const Fields& fields, std::string_view key, const std::string& word) {
  const auto* option =
      std::ranges::find_if(options, [&](const Option& row) { return row.name == word; });
  if (option == options.end()) {
    const std::string near = nearest(word, names_in(options));
    fields.fail(key,
                fmt::format("'{}' is no option that meshwright knows; {}", word,
                            near.empty() ? "remove it" : fmt::format("did you mean '{}'?", near)));
  }
  if (option->effect == Effect::refused) fields.fail(key, fmt::format("'{}' {}", word, own_work));
  return *option;
}

void check_parameter(const Fields& fields, std::string_view key, const std::string& name,
                     Job& job) {
  if (name == repeated_parameter)
    fields.fail(key, fmt::format("the launcher already gives MCA parameter {}, and Open MPI aborts "
                                 "when it is repeated; remove it",
                                 name));
  if (!job_may_set_parameter(name))
    job.unlisted_mpi_options.push_back(fmt::format("MCA parameter {}", name));
}

void check_variable(const Fields& fields, std::string_view key, const std::string& word,
                    const ChosenCluster& cluster, Job& job) {
  const std::string name = word.substr(0, word.find('='));
  const bool good =
      !name.empty() && !(name[0] >= '0' && name[0] <= '9') &&
      std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  if (!good)
    fields.fail(key, fmt::format("'-x {}' names no variable; use -x NAME or -x NAME=VALUE", word));
  if (name.size() < word.size() && !job_may_set_variable(name))
    job.unlisted_mpi_options.push_back(fmt::format("variable {}", name));
  if (begins_with_one(name, foreign_variables))
    warn(job, fields, key,
         fmt::format("{} is for SageMaker's libraries, without effect here", name));
  if (begins_with_one(name, fabric_variables) && cluster.hosts > 0 && !cluster.facts.has_efa)
    warn(job, fields, key,
         fmt::format("{} is for EFA networks, which {} does not have", name, cluster.machine));
}

}  // namespace

std::vector<std::string> read_mpi_options(Fields& fields, std::string_view key,
                                          const ChosenCluster& cluster, Job& job) {
  const std::string text = fields.required<std::string>(key);
  if (text.find_first_of("'\"`$;|&<>\\") != std::string::npos)
    fields.fail(key,
                "holds a quote or another sign of the shell, and nothing goes through one; "
                "write plain words");
  if (printable(text) != text) fields.fail(key, "holds a control character; write plain words");
  const std::vector<std::string> words = split(text);
  for (std::size_t i = 0; i < words.size();) {
    const Option& option = known_option(fields, key, words[i]);
    const auto arguments = static_cast<std::size_t>(option.arguments);
    if (i + arguments >= words.size())
      fields.fail(key, fmt::format("'{}' needs {} more word{}", words[i], arguments,
                                   arguments == 1 ? "" : "s"));
    if (words[i].ends_with("mca")) check_parameter(fields, key, words[i + 1], job);
    if (words[i] == "-x") check_variable(fields, key, words[i + 1], cluster, job);
    i += 1 + arguments;
  }
  return words;
}

}  // namespace meshwright::job
