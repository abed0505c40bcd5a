// Finds the response to a request: checks who may ask and what for, runs commands, and reports
// errors.
#pragma once

#include <httplib.h>

#include "tools/serve/address.h"
#include "tools/serve/commands.h"
#include "tools/serve/places.h"
#include "tools/serve/server.h"

namespace meshwright::tools {

class Router {
 public:
  Router(ServedAddress address, const Serving& serving, int stopping);

  void answer_for(httplib::Server& server);

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;
  using Routed = httplib::Server::HandlerResponse;

  Routed before_body(const Request& request, Response& response) const;
  bool is_allowed(const Request& request, Response& response) const;
  void answer_list(const Call& call, int client, Response& response) const;
  void answer_command(const ServedCommand& command, const Request& request, const std::string& body,
                      Response& response);

  ServedAddress address_;
  Serving serving_;
  int stopping_;
  Places places_;
};

}  // namespace meshwright::tools
