// Runs the command `share JOBS`, which predicts several jobs on one network fabric, and how much
// each slows the others down.
#include <fmt/format.h>

#include <filesystem>

#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"
#include "sim/advise/shared_fabric.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/prediction.h"
#include "tools/report/print_json.h"
#include "tools/session/choose.h"
#include "tools/session/machines.h"
#include "tools/session/text.h"

namespace meshwright::tools {

namespace {

struct JobHere {
  std::string file;
  int first_host = -1;  // 0 or more; -1: after the hosts of the previous job
};

struct Shared {
  json topology;
  std::vector<JobHere> jobs;
};

std::string from_file(const std::string& file, const std::string& path) {
  return (std::filesystem::path(file).parent_path() / path).lexically_normal().string();
}

Shared read_shared(const std::string& path) {
  Fields fields = read_json_file(path);
  Shared shared;
  if (fields.is_object("topology"))
    shared.topology = fields.raw("topology");
  else
    shared.topology =
        read_json_file(from_file(path, fields.required<std::string>("topology"))).raw();
  for (Fields& each : fields.objects("jobs")) {
    JobHere job{from_file(path, each.required<std::string>("job"))};
    job.first_host = each.optional<int>("first_host", -1);
    if (each.has("first_host") && job.first_host < 0)
      each.fail("first_host", "must be 0 or more; leave it out for the hosts after the job before");
    each.done();
    shared.jobs.push_back(job);
  }
  fields.done();
  if (shared.jobs.empty()) fields.fail("jobs", "the list is empty; name a job");
  return shared;
}

std::vector<Tenant> tenants_of(const Shared& shared, const Options& options) {
  const Watch watch = printed_watch();
  const MachineLoader load = asked_machines(options, watch);
  std::vector<Tenant> tenants;
  int next_host = 0;
  for (const JobHere& here : shared.jobs) {
    JobRequest request = job_request(options, here.file);
    request.set.insert(request.set.begin(), "cluster.topology=" + shared.topology.dump());
    const Job job = read_job_of(request, watch);
    Chosen chosen = choose_plan(job, load, watch);
    chosen.cluster.fabric->first_host = here.first_host < 0 ? next_host : here.first_host;
    next_host = chosen.cluster.fabric->first_host + chosen.cluster.hosts;
    tenants.push_back({job.name, std::move(chosen.compiled), std::move(chosen.cluster)});
  }
  return tenants;
}

json answer_json(const std::vector<Tenant>& tenants, const std::vector<SharedStep>& steps) {
  json jobs = json::array();
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    const auto& [alone_s, together_s, sends, spine_share] = steps[i];
    const Cluster& cluster = tenants[i].cluster;
    jobs.push_back({{"name", tenants[i].name},
                    {"machine", cluster.machine.name},
                    {"count", cluster.hosts},
                    {"first_host", cluster.fabric->first_host},
                    {"parallelism", to_json(tenants[i].compiled.plan.parallelism)},
                    {"step_time_alone_s", alone_s},
                    {"step_time_s", together_s},
                    {"slow_down", together_s / alone_s},
                    {"sends_to_spine", sends},
                    {"spine_share", spine_share}});
  }
  return {{"jobs", jobs}};
}

std::string answer_text(const std::vector<Tenant>& tenants, const std::vector<SharedStep>& steps) {
  Table table({"job", "hosts", "plan", "step alone", "together", "slow-down", "sends to spine",
               "share of it"});
  table.may_break("plan");
  table.may_lack({"share of it", "sends to spine"});
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    const auto& [alone_s, together_s, sends, spine_share] = steps[i];
    const Cluster& cluster = tenants[i].cluster;
    const int first = cluster.fabric->first_host;
    table.add({tenants[i].name, fmt::format("{} to {}", first, first + cluster.hosts - 1),
               short_plan_text(tenants[i].compiled.plan), show_seconds(alone_s),
               show_seconds(together_s), fmt::format("{:+.1f} %", 100 * (together_s / alone_s - 1)),
               show_percent(sends), show_percent(spine_share)});
  }
  return table.text() +
         "sends to spine: part of the step, alone; share of it: what others leave meanwhile\n";
}

int run_share(const Options& options) {
  if (options.operands.size() != 1)
    throw InputError(
        fmt::format("share: expected one file of jobs, got {}", options.operands.size()));
  const Shared shared = read_shared(options.operands.front());
  const std::vector<Tenant> tenants = tenants_of(shared, options);
  const std::vector<SharedStep> steps = [&] {
    try {
      return share_fabric(tenants);
    } catch (const InputError& error) {
      throw InputError(options.operands.front() + ": " + error.what());
    }
  }();
  if (options.json)
    print_json(answer_json(tenants, steps));
  else
    print_to(stdout, "{}", answer_text(tenants, steps));
  return done;
}

}  // namespace

const Command share_command = {"share",
                               "JOBS",
                               "a file that names jobs and the fabric they share (JSON)",
                               "several jobs on one fabric: how much each slows the others down",
                               "json wide set profile measure-afresh prices",
                               run_share,
                               "Predicts several jobs on one fabric of leaf and spine switches. "
                               "docs/job-file.md, Topology, has the file."};

}  // namespace meshwright::tools
