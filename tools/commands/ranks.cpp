#include "tools/commands/ranks.h"

#include <algorithm>
#include <iterator>

#include "exec/comm/communicator.h"
#include "exec/launch/memory_file.h"
#include "exec/launch/mpirun.h"
#include "exec/launch/restarts.h"
#include "exec/launch/run_folder.h"
#include "exec/launch/stop.h"
#include "models/core/error.h"
#include "tools/commands/asking.h"
#include "tools/measure/ranks.h"
#include "tools/session/hosts.h"
#include "tools/session/train.h"

namespace meshwright::tools {

int run_ranks(const Options& options, const Run& run, const StartedRanks& ranks) {
  if (std::ranges::find(communicator_kinds(), "mpi", &CommunicatorKind::name) ==
      communicator_kinds().end())
    throw InputError(options.command +
                     ": this build of meshwright trains in one process; for several, use the "
                     "Debian package or a build from source with MPI");
  const int count = run.chosen.cluster.ranks();
  allow_open_files(count);
  const MemoryFile input(ranks.input);
  MpirunOptions launch = mpirun_options(count);
  launch.extra = run.job.mpi_options;
  const SageMaker container = read_sagemaker(options.sagemaker);
  launch.remote = remote_hosts(options, container, run);
  if (launch.remote)
    std::ranges::copy(ranks.variables, std::back_inserter(launch.remote->variables));
  if (launch.remote && !options.sagemaker.hosts.empty())
    wait_for_hosts(*launch.remote, launch.extra, deadlines_of(options).long_s, printed_watch());
  hold_stop_signals();
  const RunFolder folder;
  launch.folder = folder.path();
  Supervision supervision{input.path(), hosts_of_ranks(launch)};
  supervision.deadline_s = ranks.deadline_s;
  supervision.patience_s = std::min(supervision.patience_s, ranks.deadline_s);
  // Options of mpirun that the job sets may name a network interface that an own network lacks.
  supervision.own_network = ranks.own_network && !launch.remote && launch.extra.empty();
  const auto start = [&](int restarts) {
    return run_mpirun(mpirun_command(launch, ranks.command(restarts)), supervision);
  };
  return run_with_restarts({options.restarts.value_or(0)}, start, [&] { return ranks.begin; });
}

}  // namespace meshwright::tools
