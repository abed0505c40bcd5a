// Knows where the server listens, and by which names a request may address it. A page on another
// site could let its own name resolve to this server (DNS rebinding). Its requests then have that
// name as Host, and are rejected.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshwright::tools {

class ServedAddress {
 public:
  // `host` is the argument of --host, a name or an address.
  ServedAddress(std::string host, int port);

  bool is_host(std::string_view header) const;    // such as "localhost:8080"
  bool is_origin(std::string_view header) const;  // such as "http://localhost:8080"
  std::string url() const;                        // such as "http://127.0.0.1:8080/"

 private:
  bool is_name(std::string_view name) const;

  std::string host_;
  int port_;
  bool is_any_;                     // it listens at every address of this computer
  std::vector<std::string> names_;  // in lower case, IPv6 in brackets
};

// Returns the one address at which a server of `host` listens, in digits: the first IPv4 address of
// a name, or else its first IPv6 address. So two servers of one name use the same address, and the
// second one fails. Returns "" if there is no address.
std::string address_of(const std::string& host);

// Returns a sentence on why no server can listen at `address` (in digits), for example because the
// port is taken.
std::string why_not_at(const std::string& address, int port);

}  // namespace meshwright::tools
