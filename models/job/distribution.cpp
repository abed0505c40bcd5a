#include "models/job/distribution.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>

#include "models/core/error.h"
#include "models/core/json.h"

namespace meshwright::job {

namespace {

using Pairs = std::vector<std::string>;

// A key of meshwright and its names in the dictionary, or "" if a version has none.
struct Translation {
  std::string_view ours, version_1, version_2;
};
constexpr std::array<Translation, 9> translations = {{
    {"/parallelism/pipeline", "pipeline_parallel_degree", ""},
    {"/parallelism/partition", "partition_file", ""},
    {"/parallelism/tensor_layout", "optimize", ""},
    {"/parallelism/tensor_batch", "prescaled_batch", ""},
    {"/parallelism/tensor", "tensor_parallel_degree", "tensor_parallel_degree"},
    {"/parallelism/shard", "sharded_data_parallel_degree", "hybrid_shard_degree"},
    {"/parallelism/offload", "offload_activations", "sm_activation_offloading"},
    {"/parallelism/context", "", "context_parallel_degree"},
    {"/parallelism/expert", "", "expert_parallel_degree"},
}};

// Launchers that meshwright does not imitate. It is an error if one is on.
struct Refused {
  const char* key;
  const char* why;
};
constexpr std::array<Refused, 2> refused_launchers = {{
    {"multi_worker_mirrored_strategy", "is TensorFlow's launcher"},
    {"parameter_server", "is TensorFlow's asynchronous launcher"},
}};

struct Launchers {
  bool model_parallel = false, data_parallel = false, mpi = false, torch = false, ddp = false,
       xla = false;
};

bool enabled_in(Fields& fields, std::string_view key, Job& job) {
  if (!fields.has(key)) return false;
  Fields section = fields.object(key);
  const bool on = read_enabled(section, job);
  section.done();
  return on;
}

void read_mpi(Fields fields, Launchers& launchers, const ChosenCluster& cluster, Job& job) {
  launchers.mpi = read_enabled(fields, job);
  if (fields.has("processes_per_host")) {
    const int processes = read_degree(fields, "processes_per_host", 1);
    const int given = job.cluster.processes_per_host;
    if (given > 0 && given != processes)
      fields.fail("processes_per_host",
                  fmt::format("{} contradicts cluster.processes_per_host {}; keep one of them",
                              processes, given));
    if (launchers.mpi) job.cluster.processes_per_host = processes;
  }
  if (fields.has("custom_mpi_options"))
    job.mpi_options = read_mpi_options(fields, "custom_mpi_options", cluster, job);
  fields.done();
  if (launchers.mpi) return;
  job.mpi_options.clear();
  job.unlisted_mpi_options.clear();
  for (const char* key : {"processes_per_host", "custom_mpi_options"})
    if (fields.has(key)) warn(job, fields, key, "not used, because 'enabled' is not true");
}

void read_launchers(Fields& fields, Launchers& launchers, const ChosenCluster& cluster, Job& job) {
  if (fields.has("mpi")) read_mpi(fields.object("mpi"), launchers, cluster, job);
  launchers.torch = enabled_in(fields, "torch_distributed", job);
  launchers.ddp = enabled_in(fields, "pytorchddp", job);
  launchers.xla = enabled_in(fields, "pytorchxla", job);
  for (const Refused& row : refused_launchers)
    if (enabled_in(fields, row.key, job))
      fields.fail(row.key,
                  fmt::format("{} and is not supported; use mpi or torch_distributed", row.why));
  if (fields.has("instance_groups") &&
      !fields.required<std::vector<std::string>>("instance_groups").empty())
    fields.fail("instance_groups",
                "a cluster of several instance types is not supported; use one instance type");
}

void read_data_parallel(Fields fields, Launchers& launchers, const ChosenCluster& cluster,
                        Job& job) {
  launchers.data_parallel = read_enabled(fields, job);
  if (fields.has("custom_mpi_options"))
    job.mpi_options = read_mpi_options(fields, "custom_mpi_options", cluster, job);
  fields.done();
  if (launchers.data_parallel)
    warn(job, fields, "enabled", "NCCL's collectives take the place of SageMaker's own");
}

// Checks that the launchers and strategies that are on can be combined, as the SDK and the library
// require.
void check_launchers(Fields& fields, const Launchers& on, const ChosenCluster& cluster) {
  if (on.model_parallel && on.mpi && on.torch)
    fields.fail(
        "torch_distributed/enabled",
        "true beside mpi.enabled; use mpi for version 1 or torch_distributed for version 2");
  if (on.model_parallel && !on.mpi && !on.torch)
    fields.fail("mpi/enabled",
                "smdistributed.modelparallel version 1 is started by MPI and needs true here; set "
                "it, or torch_distributed.enabled for version 2");
  if (on.ddp && (on.model_parallel || on.data_parallel))
    fields.fail("pytorchddp/enabled", "does not go with smdistributed; remove one of them");
  if (on.xla && (on.model_parallel || on.data_parallel || on.torch || on.ddp))
    fields.fail("pytorchxla/enabled", "goes with no other launcher; remove the others");
  if ((on.model_parallel || on.data_parallel) && !on.torch && cluster.machine == "p5.48xlarge")
    fields.fail("smdistributed",
                "version 1 of the library does not know p5.48xlarge; use torch_distributed "
                "(version 2) or another instance type");
}

// Returns the object `parameters`, or the object in the JSON file that it names.
Fields parameters_of(Fields& model_parallel, Job& job) {
  if (!model_parallel.is_string("parameters")) return model_parallel.object("parameters");
  const std::string path = model_parallel.required<std::string>("parameters");
  try {
    job.settings_files.push_back(resolve(job, path));
    return read_json_file(job.settings_files.back());
  } catch (const InputError& error) {
    model_parallel.fail("parameters", error.what());
  }
}

void warn_instance(const Fields& fields, const Launchers& on, const ChosenCluster& cluster,
                   Job& job) {
  const Pairs version_1 = {"g4dn.12xlarge", "p3.16xlarge", "p3dn.24xlarge", "p4d.24xlarge",
                           "p4de.24xlarge"};
  const Pairs xla = {"g4dn.8xlarge", "g4dn.12xlarge", "g5.48xlarge", "p3dn.24xlarge",
                     "p4d.24xlarge"};
  const auto lacks = [&](const Pairs& known) {
    return std::ranges::find(known, cluster.machine) == known.end();
  };
  if (cluster.facts.is_cpu) return;
  if (on.model_parallel && on.mpi && lacks(version_1))
    warn(job, fields, "smdistributed",
         fmt::format("version 1 of the library is documented for {} only, not for {}",
                     list_of(version_1, "and"), cluster.machine));
  if (on.xla && job.plan.training.compiler != CompilerLevel::full)
    warn(job, fields, "pytorchxla",
         "SageMaker's SDK raises ValueError for it without compiler_config; give "
         "\"compiler_config\": "
         "{\"enabled\": true}, or another launcher");
  if (on.xla && lacks(xla))
    warn(job, fields, "pytorchxla",
         fmt::format("{} is advised, not {}", list_of(xla), cluster.machine));
}

void warn_idle_gpus(Job& job, const ChosenCluster& cluster) {
  const int processes = job.cluster.processes_per_host;
  if (cluster.hosts > 1 && processes > 0 && processes < cluster.facts.gpus)
    job.warnings.push_back(
        fmt::format("{}: /distribution/mpi/processes_per_host: {} of {} GPUs on several hosts is "
                    "reported to end in network timeouts on SageMaker",
                    job.file, processes, cluster.facts.gpus));
}

void read_plain_data_parallel(const DistributionContext& context) {
  context.job.autos.insert("parallelism.data");
}

// Reads `smdistributed`, which may name modelparallel or dataparallel. Returns the parameters of
// modelparallel if that is on and has any.
std::optional<Fields> read_strategy(Fields& fields, Launchers& launchers,
                                    const ChosenCluster& cluster, Job& job) {
  if (!fields.has("smdistributed")) return std::nullopt;
  Fields strategies = fields.object("smdistributed");
  if (strategies.has("modelparallel") && strategies.has("dataparallel"))
    fields.fail("smdistributed",
                "modelparallel and dataparallel in one job; only one strategy is possible: "
                "modelparallel has data parallelism of its own (ddp)");
  std::optional<Fields> parameters;
  if (strategies.has("modelparallel")) {
    Fields section = strategies.object("modelparallel");
    launchers.model_parallel = read_enabled(section, job);
    const bool there = section.has("parameters");
    if (launchers.model_parallel && there) parameters = parameters_of(section, job);
    section.done();
    if (launchers.model_parallel && (!parameters || parameters->keys().empty())) {
      warn(job, section, "parameters",
           "empty, so SageMaker would start without the library: plain data parallelism");
      parameters.reset();
    } else if (!launchers.model_parallel && there) {
      warn(job, section, "parameters", "not used, because 'enabled' is not true");
    }
  }
  if (strategies.has("dataparallel"))
    read_data_parallel(strategies.object("dataparallel"), launchers, cluster, job);
  strategies.done();
  return parameters;
}

}  // namespace

int DistributionContext::ranks(int model_ranks) const {
  const int processes = job.cluster.processes_per_host;
  if (processes > 0) return cluster.hosts * processes;
  if (!cluster.facts.is_cpu) return cluster.hosts * cluster.facts.gpus;
  return (model_ranks + cluster.hosts - 1) / cluster.hosts * cluster.hosts;
}

int read_degree(Fields& fields, std::string_view key, int fallback) {
  const int degree = fields.optional<int>(key, fallback);
  if (degree < 1)
    fields.fail(key, fmt::format("{} must be a positive integer; use 1 or more", degree));
  if (degree > 1'000'000)
    fields.fail(key, fmt::format("{} is too large; use 1000000 or less", degree));
  return degree;
}

bool read_enabled(Fields& fields, Job& job) {
  if (!fields.has("enabled")) {
    warn(job, fields, "enabled", "missing, which means false");
    return false;
  }
  const json& value = fields.raw("enabled");
  if (value.is_boolean()) return value.get<bool>();
  warn(job, fields, "enabled",
       fmt::format("{} is not identical to true, which means false", value.dump()));
  return false;
}

void warn_unknown(const Fields& fields, const std::vector<std::string>& known,
                  const std::vector<std::string>& other, int version, Job& job) {
  for (const std::string& key : fields.keys()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    if (std::ranges::find(other, key) != other.end()) {
      warn(job, fields, key,
           fmt::format("a key of version {}, without effect in version {}", 3 - version, version));
      continue;
    }
    const std::string near = nearest(key, known);
    warn(job, fields, key,
         near.empty() ? "unknown key, without effect"
                      : fmt::format("unknown key, without effect; did you mean '{}'?", near));
  }
}

void read_distribution(Fields fields, const ChosenCluster& cluster,
                       const std::set<std::string>& training_keys, Job& job) {
  Launchers launchers;
  std::optional<Fields> parameters = read_strategy(fields, launchers, cluster, job);
  read_launchers(fields, launchers, cluster, job);
  fields.done();
  check_launchers(fields, launchers, cluster);
  const DistributionContext context{cluster, training_keys, job};
  if (!parameters) return read_plain_data_parallel(context);
  if (cluster.hosts == 0)
    fields.fail("smdistributed",
                "its degrees are for one cluster; name one machine and one count, or use "
                "'parallelism' with \"auto\"");
  const int most = cluster.facts.is_cpu ? most_local_processes : cluster.facts.gpus;
  if (job.cluster.processes_per_host > most)
    return read_plain_data_parallel(context);  // the caller refuses the number of processes
  warn_instance(fields, launchers, cluster, job);
  warn_idle_gpus(job, cluster);
  if (launchers.torch)
    read_version_2(*parameters, context);
  else
    read_version_1(*parameters, context);
}

std::string key_in_distribution(const std::string& key, bool version_2) {
  for (const Translation& row : translations) {
    const std::string_view theirs = version_2 ? row.version_2 : row.version_1;
    if (theirs.empty() || !key.starts_with(row.ours)) continue;
    const std::string below = key.substr(row.ours.size());
    if (below.empty() || below.front() == '/')
      return fmt::format("/distribution/smdistributed/modelparallel/parameters/{}{}", theirs,
                         below);
  }
  return key;
}

}  // namespace meshwright::job
