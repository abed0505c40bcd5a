#include "tools/serve/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace meshwright::tools {

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return result;
}

bool is_address(int family, const std::string& text) {
  in6_addr address{};
  return inet_pton(family, text.c_str(), &address) == 1;
}

// Returns a host as URLs have it: an IPv6 address in brackets.
std::string in_url(const std::string& host) {
  return is_address(AF_INET6, host) ? "[" + host + "]" : host;
}

// Returns whether the name of a Host header is an address in digits. DNS rebinding needs a name, so
// such a Host is safe.
bool is_numeric(const std::string& name) {
  if (name.size() > 2 && name.front() == '[' && name.back() == ']')
    return is_address(AF_INET6, name.substr(1, name.size() - 2));
  return is_address(AF_INET, name);
}

std::string own_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? lower(name) : "";
}

struct Resolved {
  explicit Resolved(const std::string& host, const char* port = nullptr) {
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    if (host.empty() || getaddrinfo(host.c_str(), port, &wanted, &all) != 0) all = nullptr;
  }
  ~Resolved() {
    if (all != nullptr) freeaddrinfo(all);
  }
  Resolved(const Resolved&) = delete;
  Resolved& operator=(const Resolved&) = delete;

  addrinfo* all = nullptr;
};

}  // namespace

ServedAddress::ServedAddress(std::string host, int port)
    : host_(std::move(host)),
      port_(port),
      is_any_(host_ == "0.0.0.0" || host_ == "::"),
      names_{"127.0.0.1", "localhost", "[::1]", lower(in_url(host_))} {
  if (is_any_) names_.push_back(own_name());
}

bool ServedAddress::is_name(std::string_view name) const {
  if (name.empty()) return false;  // own_name() may be empty
  const std::string own = lower(name);
  return std::ranges::find(names_, own) != names_.end() || (is_any_ && is_numeric(own));
}

bool ServedAddress::is_host(std::string_view header) const {
  const std::string port = ":" + std::to_string(port_);
  if (header.ends_with(port)) return is_name(header.substr(0, header.size() - port.size()));
  return port_ == 80 && is_name(header);
}

bool ServedAddress::is_origin(std::string_view header) const {
  constexpr std::string_view scheme = "http://";
  return header.starts_with(scheme) && is_host(header.substr(scheme.size()));
}

std::string address_of(const std::string& host) {
  const Resolved resolved(host);
  const addrinfo* chosen = resolved.all;
  for (const addrinfo* each = resolved.all; each != nullptr; each = each->ai_next)
    if (each->ai_family == AF_INET && chosen->ai_family != AF_INET) chosen = each;
  char text[NI_MAXHOST] = {};
  if (chosen == nullptr || getnameinfo(chosen->ai_addr, chosen->ai_addrlen, text, sizeof text,
                                       nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  return text;
}

std::string why_not_at(const std::string& address, int port) {
  constexpr std::string_view another = "--port N takes another one, --port 0 any that is free";
  const Resolved resolved(address, std::to_string(port).c_str());
  int why = EADDRNOTAVAIL;
  if (resolved.all != nullptr) {
    const int yes = 1;
    const int tried = socket(resolved.all->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(tried, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const bool good =
        bind(tried, resolved.all->ai_addr, resolved.all->ai_addrlen) == 0 && listen(tried, 1) == 0;
    why = good ? EADDRINUSE : errno;  // it has become free since
    if (tried >= 0) close(tried);
  }
  switch (why) {
    case EADDRINUSE:
      return fmt::format("port {} of {} is taken, perhaps by another serve; {}", port,
                         in_url(address), another);
    case EADDRNOTAVAIL:
      return fmt::format("{} is not an address of this computer; --host 127.0.0.1 is one",
                         in_url(address));
    default:
      return fmt::format("cannot listen at {} port {}: {}; {}", in_url(address), port,
                         std::strerror(why), another);
  }
}

std::string ServedAddress::url() const {
  return "http://" + in_url(host_) + ":" + std::to_string(port_) + "/";
}

}  // namespace meshwright::tools
