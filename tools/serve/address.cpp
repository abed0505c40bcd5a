#include "tools/serve/address.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace meshwright {

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

// IPv6 addresses stand in brackets.
std::string in_url(const std::string& host) {
  return is_address(AF_INET6, host) ? "[" + host + "]" : host;
}

// No name of a page elsewhere looks like this.
bool is_numeric(const std::string& name) {
  if (name.size() > 2 && name.front() == '[' && name.back() == ']')
    return is_address(AF_INET6, name.substr(1, name.size() - 2));
  return is_address(AF_INET, name);
}

std::string own_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? lower(name) : "";
}

}  // namespace

ServedAddress::ServedAddress(std::string host, int port)
    : host_(std::move(host)),
      port_(port),
      is_any_(host_ == "0.0.0.0" || host_ == "::"),
      names_{"127.0.0.1", "localhost", "[::1]", lower(in_url(host_))} {
  if (is_any_) names_.push_back(own_name());
}

bool ServedAddress::is_name(std::string_view name) const {
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

std::string ServedAddress::url() const {
  return "http://" + in_url(host_) + ":" + std::to_string(port_) + "/";
}

}  // namespace meshwright
