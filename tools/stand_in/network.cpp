// Refuses connections to other hosts and look-ups of their names, because a rehearsal has no
// network. That holds for every program that the script starts. Python's own sockets are refused
// before, with the script's line (tools/python/meshwright/rehearsal/outside.py).
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "tools/stand_in/notes.h"

using namespace meshwright::stand_in;

namespace {

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool is_here(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const std::uint32_t to = ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
    return to >> 24 == 127 || to == 0;
  }
  if (address->sa_family != AF_INET6) return true;
  const in6_addr& to = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&to) != 0 || IN6_IS_ADDR_UNSPECIFIED(&to) != 0 ||
         (IN6_IS_ADDR_V4MAPPED(&to) != 0 && to.s6_addr[12] == 127);
}

// Returns whether a socket is one for streams. Others may be connected, because that sends nothing
// and lets programs learn their own address.
bool is_stream(int socket) {
  int kind = 0;
  socklen_t bytes = sizeof kind;
  return getsockopt(socket, SOL_SOCKET, SO_TYPE, &kind, &bytes) == 0 && kind == SOCK_STREAM;
}

bool is_own_name(std::string_view name) {
  char own[256] = {};
  gethostname(own, sizeof own - 1);
  return name == "localhost" || name == own || name.starts_with("127.") || name == "::1" ||
         name == "0.0.0.0";
}

}  // namespace

extern "C" {

int connect(int socket, const sockaddr* address, socklen_t bytes) {
  static const auto real = next<int (*)(int, const sockaddr*, socklen_t)>("connect");
  if (!is_rehearsed() || is_here(address) || !is_stream(socket))
    return real(socket, address, bytes);
  note("no network: a program asked for another host");
  errno = ENETUNREACH;
  return -1;
}

int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  static const auto real =
      next<int (*)(const char*, const char*, const addrinfo*, addrinfo**)>("getaddrinfo");
  const bool asks = hints == nullptr || (hints->ai_flags & (AI_NUMERICHOST | AI_PASSIVE)) == 0;
  if (!is_rehearsed() || name == nullptr || !asks || is_own_name(name))
    return real(name, service, hints, found);
  note("no network: a program asked for " + std::string(name));
  return EAI_AGAIN;
}
}
