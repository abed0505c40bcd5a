#include "exec/launch/own_network.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace meshwright::exec {

namespace {

bool write_file(const char* path, const char* text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = write(file, text, std::strlen(text)) >= 0;
  close(file);
  return written;
}

// Maps a user's or group's id inside the new namespace to the same id outside. It is called between
// fork and exec, where snprintf is not allowed.
bool map_own_id(const char* path, unsigned id) {
  std::array<char, 64> line{};
  char* end = line.data();
  for (const unsigned each : {id, id, 1U}) {
    end = std::to_chars(end, line.end() - 1, each).ptr;
    *end++ = ' ';
  }
  return write_file(path, line.data());
}

bool bring_up_loopback() {
  const int any_socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any_socket < 0) return false;
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  const bool up = ioctl(any_socket, SIOCSIFFLAGS, &request) == 0;
  close(any_socket);
  return up;
}

}  // namespace

bool enter_own_network() {
  if (unshare(CLONE_NEWNET) == 0) return bring_up_loopback();
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  return write_file("/proc/self/setgroups", "deny") && map_own_id("/proc/self/uid_map", user) &&
         map_own_id("/proc/self/gid_map", group) && bring_up_loopback();
}

bool own_network_allowed() {
  const pid_t child = fork();
  if (child == 0) _exit(enter_own_network() ? 0 : 1);
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return child > 0 && status == 0;
}

}  // namespace meshwright::exec
