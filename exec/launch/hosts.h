// Reads which hosts a run over several hosts has, and lets the hosts wait for one another.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace meshwright::exec {

struct RunHost {
  std::string name;  // or address
  int slots = 1;     // processes that it takes
  bool operator==(const RunHost&) const = default;
};

// Reads a line per host: `name`, `name slots=8` or `name:8`, where `#` begins a comment. Ignores
// `max_slots=` and `max-slots=`. Throws an InputError that names the file, and the line if one is
// wrong.
std::vector<RunHost> read_hostfile(const std::string& path);

// Returns the hosts of a Slurm node list, such as "gpu[1-2,07],login": gpu1, gpu2, gpu07, login.
// Throws InputError if it is not such a list.
std::vector<std::string> hosts_of_slurm(const std::string& list);

// Returns whether `name` can be in a list of hosts on a command line. Only letters, digits, '.',
// '_' and, except at the begin, '-' are allowed, because a comma or another sign would change the
// list.
bool is_host_name(const std::string& name);

// Waits until port 22 of all `hosts`, which mpirun will reach by SSH, accepts connections, for
// about `seconds` in all. Calls waiting() once if some hosts do not accept at first. Returns the
// hosts that never did.
std::vector<std::string> wait_for_ssh(std::vector<std::string> hosts, double seconds,
                                      const std::function<void()>& waiting);

// Runs on a host that mpirun reaches through its daemon (`orted`). Waits until a daemon has started
// and ended. Returns false if none starts within `seconds`, or as soon as `stop` returns true.
bool wait_for_daemon(double seconds, const std::function<bool()>& stop);

}  // namespace meshwright::exec
