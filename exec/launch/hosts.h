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

// Reads a line per host: `name`, `name slots=8` or `name:8`, where `#` begins a comment. Throws
// InputError, which names the line.
std::vector<RunHost> read_hostfile(const std::string& path);

// Returns whether the name can be in a list of hosts on a command line, which commas and signs
// would change.
bool is_host_name(const std::string& name);

// Waits, `seconds` for all together, until the SSH daemons of `hosts` can be connected to, as
// mpirun will. Calls waiting() once where they cannot at first. Returns those that never could.
std::vector<std::string> wait_for_ssh(std::vector<std::string> hosts, double seconds,
                                      const std::function<void()>& waiting);

// Runs on a host that mpirun reaches through its daemon (`orted`) and waits until such a process
// has come and gone. Returns false if none comes within `seconds`, or `stop` returns true before.
bool wait_for_daemon(double seconds, const std::function<bool()>& stop);

}  // namespace meshwright
