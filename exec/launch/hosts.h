// The hosts of a run over several of them: who they are, and waiting for one another.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace meshwright {

struct RunHost {
  std::string name;  // or address
  int slots = 1;     // processes that it takes
  bool operator==(const RunHost&) const = default;
};

// A line per host: `name`, `name slots=8` or `name:8`; `#` begins a comment. InputError names the
// line.
std::vector<RunHost> read_hostfile(const std::string& path);

// Whether it can stand in a list of hosts on a command line, which commas and signs would change.
bool is_host_name(const std::string& name);

// Waits, `seconds` for all together, until the SSH daemons of `hosts` can be connected to, as
// mpirun will. Calls waiting() once where they cannot at first. Returns those that never could.
std::vector<std::string> wait_for_ssh(std::vector<std::string> hosts, double seconds,
                                      const std::function<void()>& waiting);

// On a host that mpirun reaches through its daemon (`orted`): until such a process has come and
// gone. False when none comes within `seconds`, or `stop` says so meanwhile.
bool wait_for_daemon(double seconds, const std::function<bool()>& stop);

}  // namespace meshwright
