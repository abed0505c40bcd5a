#include "exec/launch/hosts.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "models/core/error.h"
#include "models/core/fields.h"

namespace meshwright::exec {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto look_every = std::chrono::milliseconds(500);

[[noreturn]] void wrong(const std::string& path, int line, const std::string& what) {
  throw InputError(path + ": line " + std::to_string(line) + ": " + what);
}

int slots_of(const std::string& text, const std::string& path, int line) {
  const bool digits =
      !text.empty() && text.size() < 6 &&
      std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!digits || std::stoi(text) < 1)
    wrong(path, line, "'" + text + "' is no number of slots; use 1 or more");
  return std::stoi(text);
}

RunHost host_of(std::istringstream& words, const std::string& first, const std::string& path,
                int line) {
  RunHost host{first, 1};
  if (const std::size_t colon = first.rfind(':'); colon != std::string::npos) {
    host.name = first.substr(0, colon);
    host.slots = slots_of(first.substr(colon + 1), path, line);
  }
  for (std::string word; words >> word;) {
    if (word.starts_with("slots="))
      host.slots = slots_of(word.substr(6), path, line);
    else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots="))
      wrong(path, line, "unknown word '" + word + "'; use `name slots=N`");
  }
  if (!is_host_name(host.name))
    wrong(path, line, "'" + host.name + "' is no name or address of a host");
  return host;
}

constexpr int most_hosts = 100'000;  // in one range; a longer one is a slip

// Appends `name`, in which the first brackets stand for numbers: "gpu[1-2,07]-a".
void add_nodes(const std::string& name, std::vector<std::string>& nodes) {
  const std::size_t open = name.find('['), close = name.find(']');
  if (open == std::string::npos && is_host_name(name)) return nodes.push_back(name);
  const auto fail = [&] {
    throw InputError("SLURM_JOB_NODELIST: '" + name + "' is no list of hosts");
  };
  if (open == std::string::npos || close == std::string::npos || close < open) fail();
  std::istringstream ranges(name.substr(open + 1, close - open - 1));
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::size_t dash = std::min(range.find('-'), range.size());
    const std::string first = range.substr(0, dash),
                      last = range.substr(std::min(dash + 1, range.size()));
    const auto is_number = [](const std::string& text) {
      return text.size() < 9 && text.find_first_not_of("0123456789") == std::string::npos;
    };
    if (first.empty() || !is_number(first) || !is_number(last)) fail();
    if (std::stoi(last.empty() ? first : last) - std::stoi(first) > most_hosts) fail();
    for (int i = std::stoi(first); i <= std::stoi(last.empty() ? first : last); ++i) {
      const std::string digits = std::to_string(i);
      const std::string zeros(first.size() - std::min(first.size(), digits.size()), '0');
      add_nodes(name.substr(0, open) + zeros + digits + name.substr(close + 1), nodes);
    }
  }
}

bool can_connect(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "22", &hints, &found) != 0) return false;
  bool good = false;
  for (const addrinfo* each = found; each != nullptr && !good; each = each->ai_next) {
    const int descriptor =
        socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
    if (descriptor < 0) continue;
    const timeval patience{2, 0};
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    good = connect(descriptor, each->ai_addr, each->ai_addrlen) == 0;
    close(descriptor);
  }
  freeaddrinfo(found);
  return good;
}

// Returns whether mpirun's daemon (`orted`) runs on this host. Only this network namespace counts,
// because several hosts may be the network namespaces of one computer.
bool daemon_runs() {
  namespace fs = std::filesystem;
  std::error_code error, unreadable;
  const fs::path own_network = fs::read_symlink("/proc/self/ns/net", error);
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    std::string name;
    std::ifstream(entry.path() / "comm") >> name;
    if (name == "orted" && fs::read_symlink(entry.path() / "ns/net", unreadable) == own_network)
      return true;
  }
  return false;
}

template <typename Test>
bool wait_until(double seconds, const Test& test) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (!test()) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(look_every);
  }
  return true;
}

}  // namespace

bool is_host_name(const std::string& name) {
  return !name.empty() && name[0] != '-' && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
}

std::vector<std::string> hosts_of_slurm(const std::string& list) {
  std::vector<std::string> nodes;
  std::string name;
  bool inside = false;
  for (char c : list + ',') {
    inside = c == '[' || (inside && c != ']');
    if (c != ',' || inside) {
      name += c;
    } else {
      add_nodes(name, nodes);
      name.clear();
    }
  }
  if (!name.empty()) add_nodes(name, nodes);  // its brackets are not closed, which is refused
  return nodes;
}

std::vector<RunHost> read_hostfile(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::vector<RunHost> hosts;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string first;
    if (!(words >> first)) continue;
    RunHost host = host_of(words, first, path, number);
    for (const RunHost& other : hosts)
      if (other.name == host.name) wrong(path, number, "'" + host.name + "' is named twice");
    hosts.push_back(std::move(host));
  }
  if (hosts.empty()) throw InputError(path + ": names no host; use a line `name slots=N` for each");
  return hosts;
}

std::vector<std::string> wait_for_ssh(std::vector<std::string> hosts, double seconds,
                                      const std::function<void()>& waiting) {
  bool said = false;
  wait_until(seconds, [&] {
    std::erase_if(hosts, can_connect);
    if (!hosts.empty() && !std::exchange(said, true)) waiting();
    return hosts.empty();
  });
  return hosts;
}

bool wait_for_daemon(double seconds, const std::function<bool()>& stop) {
  if (!wait_until(seconds, [&] { return daemon_runs() || stop(); }) || stop()) return false;
  while (daemon_runs()) {
    if (stop()) return false;
    std::this_thread::sleep_for(look_every);
  }
  return true;
}

}  // namespace meshwright::exec
